// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

// HTTPClient is for plain requests to the same backend, such as service discovery:
// it uses the proxies and trusts the authorities that Dial does, and follows no
// redirects. It keeps no connection open.
func (d *Dialer) HTTPClient() *http.Client {
	return &http.Client{
		Transport:     requests{d},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// requests makes a connection for each request.
type requests struct{ dialer *Dialer }

// RoundTrip implements http.RoundTripper.
func (t requests) RoundTrip(r *http.Request) (*http.Response, error) {
	config, err := t.dialer.tlsConfig()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return t.dialer.connect(ctx, r.URL, address)
		},
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableKeepAlives:      true,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
	}
	return transport.RoundTrip(r)
}
