// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// pemPair makes a certificate for 127.0.0.1 that is valid for a while, and its key.
func pemPair(t *testing.T, serial int64, valid time.Duration) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(valid), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// mount is a folder as Kubernetes mounts a secret: ..data is a link to the folder
// of one version, and the files are links into ..data.
type mount struct {
	t   *testing.T
	dir string
}

func newMount(t *testing.T, certificate, key []byte) mount {
	m := mount{t, t.TempDir()}
	m.replace("..1", certificate, key)
	for _, name := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
	}
	return m
}

// replace makes another version the current one, in one step.
func (m mount) replace(version string, certificate, key []byte) {
	m.t.Helper()
	require.NoError(m.t, os.Mkdir(filepath.Join(m.dir, version), 0o700))
	require.NoError(m.t, os.WriteFile(filepath.Join(m.dir, version, "tls.crt"), certificate, 0o600))
	require.NoError(m.t, os.WriteFile(filepath.Join(m.dir, version, "tls.key"), key, 0o600))
	require.NoError(m.t, os.Symlink(version, filepath.Join(m.dir, "..data_tmp")))
	require.NoError(m.t, os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")))
}

func (m mount) cert() string { return filepath.Join(m.dir, "tls.crt") }
func (m mount) key() string  { return filepath.Join(m.dir, "tls.key") }

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

func load(t *testing.T, m mount) (*Certificate, *lines, *prometheus.Registry) {
	t.Helper()
	log, reg := &lines{}, prometheus.NewRegistry()
	c, err := LoadCertificate(m.cert(), m.key(), "backend.tls", slog.New(slog.NewTextHandler(log, nil)), reg)
	require.NoError(t, err)
	return c, log, reg
}

func serial(c *Certificate) int64 { return c.current.Load().Leaf.SerialNumber.Int64() }

// TestCertificateFollowsItsFiles as Kubernetes replaces them, within 10 s; a new
// version that cannot be used leaves the one before, with one warning.
func TestCertificateFollowsItsFiles(t *testing.T) {
	first, firstKey := pemPair(t, 1, time.Hour)
	second, secondKey := pemPair(t, 2, 48*time.Hour)
	third, thirdKey := pemPair(t, 3, time.Hour)
	expired, expiredKey := pemPair(t, 4, -time.Hour)
	now := time.Now()
	synctest.Test(t, func(t *testing.T) {
		m := newMount(t, first, firstKey)
		c, log, reg := load(t, m)
		c.now = func() time.Time { return now } // not that of the bubble
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Watch(ctx) }()
		pass := func() {
			time.Sleep(10 * time.Second) // of the bubble
			synctest.Wait()
		}
		pass()
		require.EqualValues(t, 1, serial(c))
		require.Zero(t, log.count("level="), "nothing has happened")

		m.replace("..2", second, secondKey)
		require.EqualValues(t, 1, serial(c))
		pass()
		require.EqualValues(t, 2, serial(c))
		require.Equal(t, 1, log.count("certificate replaced"))
		families, err := reg.Gather()
		require.NoError(t, err)
		require.InDelta(t, c.current.Load().Leaf.NotAfter.Unix(), families[0].GetMetric()[0].GetGauge().GetValue(), 0)
		require.Equal(t, 1, testutil.CollectAndCount(reg, "synchronizer_certificate_expiry_timestamp_seconds"))

		for i, broken := range [][2][]byte{{nil, nil}, {[]byte("x"), secondKey}, {third, secondKey}, {third[:len(third)/2], thirdKey}, {expired, expiredKey}} {
			m.replace("..broken-"+string(rune('a'+i)), broken[0], broken[1])
			pass()
			pass()
			require.EqualValues(t, 2, serial(c))
			require.Equal(t, i+1, log.count("the one before stays"), "one warning for each state")
		}
		require.NoError(t, os.Remove(m.key()))
		pass()
		require.EqualValues(t, 2, serial(c))
		require.Equal(t, 6, log.count("the one before stays"))
		require.NoError(t, os.Symlink("..data/tls.key", m.key()))

		m.replace("..3", third, thirdKey)
		pass()
		require.EqualValues(t, 3, serial(c))
		// In place, as people do.
		require.NoError(t, os.WriteFile(m.cert(), second, 0o600))
		pass()
		require.EqualValues(t, 3, serial(c), "half of it is not used")
		require.NoError(t, os.WriteFile(m.key(), secondKey, 0o600))
		pass()
		require.EqualValues(t, 2, serial(c))
		require.Zero(t, log.count("PRIVATE"))
		cancel()
		<-done
	})
}

func TestCertificateErrors(t *testing.T) {
	certificate, key := pemPair(t, 1, time.Hour)
	_, another := pemPair(t, 2, time.Hour)
	for name, m := range map[string]mount{
		"not PEM":     newMount(t, []byte("x"), key),
		"another key": newMount(t, certificate, another),
		"no files":    {t, t.TempDir()},
	} {
		_, err := LoadCertificate(m.cert(), m.key(), "backend.tls", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		require.ErrorContains(t, err, "loading the certificate (backend.tls): ", name)
		require.ErrorContains(t, err, m.cert(), name)
		require.NotContains(t, err.Error(), "PRIVATE", name)
	}
	expired, expiredKey := pemPair(t, 1, -time.Hour)
	_, log, _ := load(t, newMount(t, expired, expiredKey))
	require.Equal(t, 1, log.count("has expired"))
}

// TestServeTLS: HTTP/1.1 over TLS 1.2 and 1.3, nothing older and nothing plain; a
// new certificate is for new connections.
func TestServeTLS(t *testing.T) {
	certificate, key := pemPair(t, 1, time.Hour)
	m := newMount(t, certificate, key)
	c, log, _ := load(t, m)
	l, err := Listen(t.Context(), "127.0.0.1:0", "test")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- ServeTLS(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }), time.Second, c)
	}()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(certificate))
	get := func(address string, config *tls.Config) (string, int64, error) {
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		response, err := transport.RoundTrip(r)
		if err != nil {
			return "", 0, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		if response.TLS == nil {
			return string(text), 0, nil
		}
		return string(text), response.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
	}
	secure := "https://" + l.Addr().String()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		text, serial, err := get(secure, &tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version})
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1", text)
		require.EqualValues(t, 1, serial)
	}
	_, _, err = get(secure, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	require.ErrorContains(t, err, "protocol version")
	text, _, err := get("http://"+l.Addr().String(), nil)
	require.NoError(t, err)
	require.Contains(t, text, "HTTPS server")
	_, _, err = get(secure, &tls.Config{MinVersion: tls.VersionTLS12})
	require.Error(t, err)
	require.Eventually(t, func() bool { return log.count("TLS handshake error") >= 2 }, 20*time.Second, time.Millisecond, "whom a client does not trust can be seen")

	second, secondKey := pemPair(t, 2, time.Hour)
	require.True(t, roots.AppendCertsFromPEM(second))
	m.replace("..2", second, secondKey)
	replaced, _, _ := load(t, m)
	c.current.Store(replaced.current.Load()) // as refresh does
	_, serial, err := get(secure, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	require.EqualValues(t, 2, serial)

	cancel()
	require.NoError(t, <-done)
}
