// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// certificateInterval is how often the files of a certificate are looked at. Their
// content is compared, so it does not matter how they are replaced: in place, by
// rename, or by the symbolic links of a Kubernetes secret.
const certificateInterval = 10 * time.Second

// Certificate is the certificate of a listener. It follows its files while Watch
// runs: new connections get what is in them, those that are open go on.
type Certificate struct {
	certPath, keyPath string
	key               string // the configuration section, for messages
	log               *slog.Logger
	now               func() time.Time

	current atomic.Pointer[tls.Certificate]
	seen    [sha256.Size]byte // of the contents that were looked at last; owned by refresh
}

// LoadCertificate reads a certificate chain and its private key, as PEM. key is
// the configuration section that names the files.
func LoadCertificate(certPath, keyPath, key string, log *slog.Logger, reg prometheus.Registerer) (*Certificate, error) {
	c := &Certificate{certPath: certPath, keyPath: keyPath, key: key, log: log, now: time.Now}
	certificate, seen, err := c.read()
	if err != nil {
		return nil, fmt.Errorf("loading the certificate (%s): %w", key, err)
	}
	c.seen = seen
	c.current.Store(certificate)
	if left := certificate.Leaf.NotAfter.Sub(c.now()); left <= 0 {
		log.Warn("the certificate has expired: clients will refuse it", "key", key, "file", certPath, "notAfter", certificate.Leaf.NotAfter)
	}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "synchronizer_certificate_expiry_timestamp_seconds",
		Help:        "When the certificate of a listener expires, in seconds of Unix time",
		ConstLabels: prometheus.Labels{"listener": key},
	}, func() float64 { return float64(c.current.Load().Leaf.NotAfter.Unix()) })
	if err := reg.Register(gauge); err != nil {
		return nil, fmt.Errorf("registering the metric of a certificate: %w", err)
	}
	return c, nil
}

// Config is for a listener: TLS 1.2 or newer, HTTP/1.1, which WebSockets need.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}

// Watch follows the files until ctx ends.
func (c *Certificate) Watch(ctx context.Context) {
	ticker := time.NewTicker(certificateInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.refresh()
		case <-ctx.Done():
			return
		}
	}
}

// refresh takes what is in the files if that is new and can be used. Otherwise
// the certificate stays; one warning tells about each state of the files.
func (c *Certificate) refresh() {
	certificate, seen, err := c.read()
	if seen == c.seen {
		return
	}
	c.seen = seen
	old := c.current.Load()
	if err == nil && !c.now().Before(certificate.Leaf.NotAfter) && c.now().Before(old.Leaf.NotAfter) {
		err = fmt.Errorf("it expired at %s", certificate.Leaf.NotAfter)
	}
	if err != nil {
		c.log.Warn("the new certificate cannot be used: the one before stays", "key", c.key, "error", err, "notAfter", old.Leaf.NotAfter)
		return
	}
	c.current.Store(certificate)
	c.log.Info("certificate replaced", "key", c.key, "file", c.certPath, "notAfter", certificate.Leaf.NotAfter)
}

// read gives what is in the files, and a sum of that, which tells errors apart as well.
func (c *Certificate) read() (certificate *tls.Certificate, seen [sha256.Size]byte, err error) {
	chain, err1 := os.ReadFile(c.certPath)
	private, err2 := os.ReadFile(c.keyPath)
	if err := errors.Join(err1, err2); err != nil {
		return nil, sha256.Sum256([]byte(err.Error())), err
	}
	both := sha256.New()
	_, _ = fmt.Fprintf(both, "%d\n", len(chain))
	both.Write(chain)
	both.Write(private)
	both.Sum(seen[:0])
	pair, err := tls.X509KeyPair(chain, private) // its errors name no content
	if err != nil {
		return nil, seen, fmt.Errorf("reading %s and %s: %w", c.certPath, c.keyPath, err)
	}
	return &pair, seen, nil
}

// ServeTLS is Serve with a certificate, which it follows. Handshakes that fail are
// logged, except those of probes that only open a connection.
func ServeTLS(ctx context.Context, l net.Listener, h http.Handler, grace time.Duration, c *Certificate) error {
	watching, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Watch(watching)
	}()
	defer func() {
		stop()
		<-done
	}()
	srv := newServer(h)
	srv.ErrorLog = log.New(handshakeErrors{c.log}, "", 0)
	return serve(ctx, srv, tls.NewListener(l, c.Config()), grace)
}

// handshakeErrors takes the lines of a server's error log.
type handshakeErrors struct{ log *slog.Logger }

var _ io.Writer = handshakeErrors{}

func (h handshakeErrors) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	if !bytes.HasSuffix(text, []byte(": EOF")) {
		h.log.Warn("serving TLS", "error", string(text))
	}
	return len(line), nil
}
