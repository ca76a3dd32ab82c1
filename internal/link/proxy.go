// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"

	"synchronizer"
)

// ProxyFromEnvironment reads HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in
// both cases. As usual, localhost is never reached through a proxy. A proxy that is
// wanted and cannot be read is an error, which does not repeat it: going there
// directly instead would be a surprise.
func ProxyFromEnvironment(target *url.URL) (*url.URL, error) {
	config := httpproxy.FromEnvironment()
	asHTTP := *target
	names, chosen := []string{"HTTP_PROXY", "http_proxy"}, &config.HTTPProxy
	switch target.Scheme {
	case "ws":
		asHTTP.Scheme = "http"
	case "wss", "https":
		asHTTP.Scheme = "https"
		names, chosen = []string{"HTTPS_PROXY", "https_proxy"}, &config.HTTPSProxy
	}
	for _, name := range append(names, "ALL_PROXY", "all_proxy") {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		*chosen = text
		through, err := config.ProxyFunc()(&asHTTP)
		if err != nil || isProxy(through) {
			return through, err
		}
		*chosen = "http://proxy.invalid" // one that can be read: is it wanted at all?
		if wanted, err := config.ProxyFunc()(&asHTTP); err != nil || wanted == nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s cannot be read: write it like http://user:password@host:3128, with %%XX for signs such as @ : / # ? %% in user and password", synchronizer.ErrInvalid, name)
	}
	return nil, nil
}

// isProxy says whether an address is one. A password with a slash or another sign
// that has a meaning there makes its user the host, or, since what cannot be read is
// tried again with http:// before it, its scheme.
func isProxy(u *url.URL) bool {
	return u != nil && u.Hostname() != "" && !strings.HasPrefix(u.Path, "//") && !strings.Contains(u.Path+u.RawQuery+u.Fragment, "@")
}

// connect gives a connection to address ("host:port"), through a proxy if there
// is one for target.
func (d *Dialer) connect(ctx context.Context, target *url.URL, address string) (net.Conn, error) {
	find := d.Proxy
	if find == nil {
		find = ProxyFromEnvironment
	}
	through, err := find(target)
	if err != nil {
		return nil, fmt.Errorf("finding the proxy: %w", err)
	}
	tcp := &net.Dialer{
		Timeout:         defaultTCPConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: tcpKeepAlive, Interval: tcpKeepAlive, Count: 4},
		Control:         userTimeout(d.Limits.withDefaults(clientWriteTimeout).UnackedTimeout),
	}
	if through == nil {
		return tcp.DialContext(ctx, "tcp", address)
	}
	switch through.Scheme {
	case "http", "https":
		c, err := d.tunnel(ctx, tcp, through, address)
		if err != nil {
			return nil, fmt.Errorf("through proxy %s: %w", through.Redacted(), err)
		}
		return c, nil
	case "socks5", "socks5h":
		var auth *proxy.Auth
		if through.User != nil {
			password, _ := through.User.Password()
			auth = &proxy.Auth{User: through.User.Username(), Password: password}
		}
		dialer, err := proxy.SOCKS5("tcp", hostPort(through, "1080"), auth, tcp)
		if err != nil {
			return nil, fmt.Errorf("through proxy %s: %w", through.Redacted(), err)
		}
		if withContext, ok := dialer.(proxy.ContextDialer); ok {
			return withContext.DialContext(ctx, "tcp", address)
		}
		return dialer.Dial("tcp", address)
	}
	return nil, fmt.Errorf("proxy %s: the scheme must be http, https or socks5", through.Redacted())
}

// tunnel asks an HTTP proxy for a connection. A proxy that is called https but
// does not speak TLS is a common mistake; it is asked again in plain text.
func (d *Dialer) tunnel(ctx context.Context, tcp *net.Dialer, through *url.URL, address string) (net.Conn, error) {
	if through.Scheme == "https" {
		c, err := d.tunnelOnce(ctx, tcp, through, address, true)
		var noTLS tls.RecordHeaderError
		if !errors.As(err, &noTLS) {
			return c, err
		}
		if d.Logger != nil {
			d.Logger.WarnContext(ctx, "proxy does not speak TLS, using it in plain text; write http:// in its URL", "proxy", through.Redacted())
		}
	}
	return d.tunnelOnce(ctx, tcp, through, address, false)
}

func (d *Dialer) tunnelOnce(ctx context.Context, tcp *net.Dialer, through *url.URL, address string, secure bool) (_ net.Conn, err error) {
	port := "80"
	if through.Scheme == "https" {
		port = "443"
	}
	c, err := tcp.DialContext(ctx, "tcp", hostPort(through, port))
	if err != nil {
		return nil, err
	}
	plain := c
	stop := context.AfterFunc(ctx, func() { _ = plain.Close() })
	defer func() {
		if !stop() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			err = errors.Join(err, ctx.Err())
			_ = plain.Close()
		}
	}()
	if secure {
		config, err := d.tlsConfig()
		if err != nil {
			return nil, err
		}
		config.ServerName, config.NextProtos = through.Hostname(), nil
		t := tls.Client(c, config)
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		c = t
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if through.User != nil {
		password, _ := through.User.Password()
		credentials := base64.StdEncoding.EncodeToString([]byte(through.User.Username() + ":" + password))
		request.Header.Set("Proxy-Authorization", "Basic "+credentials)
	}
	if err := request.Write(c); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(io.LimitReader(c, maxHeaderBytes))
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, err
	}
	// A successful answer to CONNECT has no body; the tunnel begins here.
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the proxy answered HTTP %d to CONNECT %s", response.StatusCode, address)
	}
	if reader.Buffered() > 0 {
		return nil, errors.New("the proxy sent data before the server could")
	}
	return c, nil
}

func hostPort(u *url.URL, port string) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
}
