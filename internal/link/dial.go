// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"synchronizer"
)

// Dialer makes the client ends of links. Its fields must not change after the
// first Dial. It implements synchronizer.Dialer.
type Dialer struct {
	// URL of the server: ws, wss, http or https.
	URL       string
	Hello     synchronizer.Hello
	AccessKey string
	// ExtraHeaders names the headers of Hello.ClusterUID and Hello.ResourceGroup.
	ExtraHeaders ExtraHeaders
	Limits       Limits
	// TLS may be nil. CAFile, if set, is read at every Dial, and its certificates
	// are trusted beside those of the system.
	TLS    *tls.Config
	CAFile string
	// Proxy tells the proxy for a URL (nil: none). Default ProxyFromEnvironment.
	Proxy   func(*url.URL) (*url.URL, error)
	Drop    synchronizer.DropFunc // may be nil
	Metrics *Metrics              // may be nil
	Logger  *slog.Logger          // may be nil; says what is odd about a proxy
}

// Dial connects, within 30 s, and sends the first Ping. An error wraps
// ErrUnauthorized (HTTP 401), ErrUnsupportedVersion (424), *RetryAfterError (429
// or 503 that say when) or ErrInvalid (the URL or CAFile is unusable) if it is
// one of these. Redirects are not followed: they would take the access key to another server.
func (d *Dialer) Dial(ctx context.Context) (synchronizer.Link, error) {
	target, err := url.Parse(d.URL)
	if err != nil || target.Host == "" {
		return nil, fmt.Errorf("%w: the server URL is not like wss://host", synchronizer.ErrInvalid) // it may hold a password
	}
	switch target.Scheme {
	case "ws", "wss", "http", "https":
	default:
		return nil, fmt.Errorf("%w: server URL %s: the scheme must be wss, ws, https or http", synchronizer.ErrInvalid, target.Redacted())
	}
	limits := d.Limits.withDefaults(clientWriteTimeout)
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()

	ws, c, err := d.upgrade(ctx, target, limits)
	if err != nil {
		return nil, err
	}
	l := newV1(ws, c, d.Hello, limits, d.Drop, d.Metrics)
	l.heard.Do(l.firstFrame) // a server may be written to at once
	if err := l.ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sending the first ping to %s: %w", target.Redacted(), err), l.Close(int(websocket.StatusGoingAway), ""))
	}
	l.startPinging(limits.PingInterval, limits.PingInterval)
	return l, nil
}

func (d *Dialer) upgrade(ctx context.Context, target *url.URL, limits Limits) (*websocket.Conn, *conn, error) {
	tlsConfig, err := d.tlsConfig()
	if err != nil {
		return nil, nil, err
	}
	// A dial that lost its race against ctx may end later, hence the lock.
	var mu sync.Mutex
	var c *conn
	transport := &http.Transport{
		// The tunnel is made here and not by the transport, so that it is a CONNECT
		// for ws:// too, and conn lies below TLS in every case.
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			inner, err := d.connect(ctx, target, address)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			c = newConn(inner, 0, limits.WriteTimeout)
			return c, nil
		},
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: handshakeTimeout,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ws, response, err := websocket.Dial(ctx, target.String(), &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: d.header(limits), CompressionMode: websocket.CompressionDisabled,
	})
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		if c != nil {
			c.abort()
		}
		return nil, nil, d.refusal(target, response, err)
	}
	return ws, c, nil
}

func (d *Dialer) tlsConfig() (*tls.Config, error) {
	config := d.TLS.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if d.CAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(d.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the server's CA: %w", err)
	}
	pool := config.RootCAs
	if pool == nil {
		if pool, err = x509.SystemCertPool(); err != nil {
			pool = x509.NewCertPool() // a container without certificates
		}
	} else {
		pool = pool.Clone()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%w: no certificate in CA file %s", synchronizer.ErrInvalid, d.CAFile)
	}
	config.RootCAs = pool
	return config, nil
}

// refusal says why there is no link, and what to do about it.
func (d *Dialer) refusal(target *url.URL, response *http.Response, err error) error {
	where := target.Redacted()
	if response == nil || response.StatusCode == http.StatusSwitchingProtocols {
		var cause *url.Error
		if errors.As(err, &cause) {
			err = cause.Err // the rest repeats the URL
		}
		return fmt.Errorf("connecting to %s: %w", where, err)
	}
	status := fmt.Sprintf("HTTP %d", response.StatusCode)
	if said := d.bodyText(response); said != "" {
		status += ": " + strconv.Quote(said)
	}
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: server %s refused the credentials (%s): check account, access key and cluster name", synchronizer.ErrUnauthorized, where, status)
	case http.StatusFailedDependency:
		return fmt.Errorf("%w: server %s (%s): update this client", synchronizer.ErrUnsupportedVersion, where, status)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		err := fmt.Errorf("server %s does not accept connections now (%s)", where, status)
		if after := retryAfter(response.Header.Get("Retry-After"), time.Now()); after > 0 {
			return &synchronizer.RetryAfterError{After: min(after, time.Hour), Err: err}
		}
		return err
	}
	if location := response.Header.Get("Location"); location != "" {
		return fmt.Errorf("server %s redirects to %q (%s), which is not followed: configure that URL if it is right", where, d.hideKey(location), status)
	}
	return fmt.Errorf("server %s did not accept the upgrade to a websocket (%s): check that the URL is that of a synchronizer server", where, status)
}

// retryAfter reads the header, which has seconds or a date; 0 if it says nothing.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(seconds, int(time.Hour/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return at.Sub(now)
	}
	return 0
}

// bodyText is the beginning of what a server or proxy said, in one line.
func (d *Dialer) bodyText(response *http.Response) string {
	if response.Body == nil {
		return ""
	}
	// So much that a key is not cut at the end of what is shown.
	text, err := io.ReadAll(io.LimitReader(response.Body, int64(maxRefusalText+len(d.AccessKey))))
	if err != nil && len(text) == 0 {
		return ""
	}
	shown := d.hideKey(string(text))
	return strings.Join(strings.Fields(shown[:min(len(shown), maxRefusalText)]), " ")
}

// hideKey takes the access key out of what somebody answered: some who are asked by
// mistake repeat the request.
func (d *Dialer) hideKey(text string) string {
	if d.AccessKey == "" {
		return text
	}
	return strings.NewReplacer(d.AccessKey, "[access key]", url.QueryEscape(d.AccessKey), "[access key]").Replace(text)
}
