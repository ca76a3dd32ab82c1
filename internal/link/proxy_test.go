// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link/linktest"
)

// TestProxy checks CONNECT for both ws and wss, with credentials, and a proxy
// that is called https but does not speak TLS.
func TestProxy(t *testing.T) {
	connects := make(chan string, 10)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != "Basic dXNlcjpwYXNz" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		connects <- r.Host
		up, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusOK)
		down, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(up, rw)
			_ = up.Close()
		}()
		_, _ = io.Copy(down, up)
		_ = down.Close()
	})
	proxy := httptest.NewServer(handler)
	defer proxy.Close()
	for _, secure := range []bool{false, true} {
		server, links := testServer(t, linktest.Setup{}, func(s *httptest.Server) {
			if secure {
				s.StartTLS()
			} else {
				s.Start()
			}
		})
		for _, scheme := range []string{"http", "https"} {
			d := testDialer(server, linktest.Setup{})
			if secure {
				d.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig
			}
			d.Proxy = func(*url.URL) (*url.URL, error) {
				u, err := url.Parse(proxy.URL)
				u.Scheme, u.User = scheme, url.UserPassword("user", "pass")
				return u, err
			}
			use(t, d, links)
			require.Equal(t, server.Listener.Addr().String(), <-connects)
		}
		d := testDialer(server, linktest.Setup{})
		d.Proxy = func(*url.URL) (*url.URL, error) { return url.Parse(proxy.URL) }
		_, err := d.Dial(t.Context())
		require.ErrorContains(t, err, "the proxy answered HTTP 407")
	}
}

func TestProxyFromEnvironment(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD"} {
		t.Setenv(name, "")
	}
	find := func(target string) string {
		u, err := url.Parse(target)
		require.NoError(t, err)
		found, err := ProxyFromEnvironment(u)
		require.NoError(t, err)
		if found == nil {
			return ""
		}
		return found.String()
	}
	require.Empty(t, find("wss://a.example"))
	t.Setenv("all_proxy", "socks5://all:1")
	require.Equal(t, "socks5://all:1", find("wss://a.example"))
	t.Setenv("HTTPS_PROXY", "http://secure:1")
	t.Setenv("http_proxy", "http://plain:1")
	t.Setenv("NO_PROXY", "b.example")
	require.Equal(t, "http://secure:1", find("wss://a.example"))
	require.Equal(t, "http://plain:1", find("ws://a.example"))
	require.Empty(t, find("wss://b.example"))
}

// TestProxyThatCannotBeRead is an error that names its variable: the server must not
// be reached without it in silence, and the password not stand in a log.
func TestProxyThatCannotBeRead(t *testing.T) {
	clear := func() {
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD"} {
			t.Setenv(name, "")
		}
	}
	for _, bad := range []string{
		"http://user:s3c#ret@proxy.example:3128", "http://user:s3c/ret@proxy.example:3128", "http://user:s3c%ret@proxy.example:3128",
		"http://user:12/s3cret@proxy.example", "http://user:12#s3cret@proxy.example", "http://user:12?s3cret@proxy.example",
		"http://user:s3cret@", "http://:3128", "http://", "user:s3cret/x@proxy.example:3128", "http://proxy.example:s3cret",
	} {
		for name, scheme := range map[string]string{"HTTPS_PROXY": "wss", "https_proxy": "https", "HTTP_PROXY": "ws", "all_proxy": "wss"} {
			clear()
			t.Setenv(name, bad)
			target := &url.URL{Scheme: scheme, Host: "server.example"}
			_, err := ProxyFromEnvironment(target)
			require.ErrorIs(t, err, synchronizer.ErrInvalid, "%s=%s", name, bad)
			require.ErrorContains(t, err, name+" cannot be read")
			require.NotContains(t, err.Error(), "s3c")
			_, err = (&Dialer{URL: target.String()}).Dial(t.Context())
			require.ErrorContains(t, err, name+" cannot be read")
			require.NotContains(t, err.Error(), "s3c")

			t.Setenv("NO_PROXY", "example")
			found, err := ProxyFromEnvironment(target)
			require.NoError(t, err, "it is not needed for this server")
			require.Nil(t, found)
			found, err = ProxyFromEnvironment(&url.URL{Scheme: scheme, Host: "localhost"})
			require.NoError(t, err)
			require.Nil(t, found)
		}
	}
	for good, want := range map[string]string{
		"proxy.example:3128": "http://proxy.example:3128", "proxy.example": "http://proxy.example", "https://u:p%40@proxy.example/": "https://u:p%40@proxy.example/",
		"user:pass@proxy.example:3128": "http://user:pass@proxy.example:3128", "socks5h://[::1]:1080": "socks5h://[::1]:1080", "10.0.0.1:1": "http://10.0.0.1:1",
	} {
		clear()
		t.Setenv("HTTPS_PROXY", good)
		found, err := ProxyFromEnvironment(&url.URL{Scheme: "wss", Host: "server.example"})
		require.NoError(t, err, good)
		require.Equal(t, want, found.String())
	}
}

// TestProxyEndlessAnswer: a proxy that never ends its header costs a limited memory.
func TestProxyEndlessAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	wrote := make(chan int, 1)
	go func() {
		c, err := listener.Accept()
		if err != nil {
			wrote <- -1
			return
		}
		n, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		for line := "X-Much: " + strings.Repeat("x", 1000) + "\r\n"; err == nil && n < 64<<20; {
			var more int
			more, err = io.WriteString(c, line)
			n += more
		}
		_ = c.Close()
		wrote <- n
	}()
	server, _ := testServer(t, linktest.Setup{}, (*httptest.Server).Start)
	d := testDialer(server, linktest.Setup{})
	d.Proxy = func(*url.URL) (*url.URL, error) { return url.Parse("http://" + listener.Addr().String()) }
	_, err = d.Dial(t.Context())
	require.ErrorContains(t, err, "through proxy")
	require.Less(t, <-wrote, 32<<20, "it was cut off")
}

// TestSOCKS checks a socks5 proxy with a password.
func TestSOCKS(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() {
		c, err := listener.Accept()
		if err != nil {
			served <- err
			return
		}
		served <- serveSOCKS(c)
	}()
	server, links := testServer(t, linktest.Setup{}, (*httptest.Server).Start)
	d := testDialer(server, linktest.Setup{})
	d.Proxy = func(*url.URL) (*url.URL, error) { return url.Parse("socks5://user:pass@" + listener.Addr().String()) }
	use(t, d, links)
	require.NoError(t, <-served)
	require.NoError(t, listener.Close())
	_, err = d.Dial(t.Context())
	require.ErrorContains(t, err, "socks connect")
	require.NotContains(t, err.Error(), "pass")
	d.Proxy = func(*url.URL) (*url.URL, error) { return url.Parse("ftp://x") }
	_, err = d.Dial(t.Context())
	require.ErrorContains(t, err, "the scheme must be http, https or socks5")
}

// serveSOCKS serves one connection as RFC 1928 and 1929 say.
func serveSOCKS(c net.Conn) error {
	defer func() { _ = c.Close() }()
	head := make([]byte, 2)
	if _, err := io.ReadFull(c, head); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, make([]byte, head[1])); err != nil {
		return err
	}
	if _, err := c.Write([]byte{5, 2}); err != nil { // a password, please
		return err
	}
	login := make([]byte, len("\x01\x04user\x04pass"))
	if _, err := io.ReadFull(c, login); err != nil || string(login) != "\x01\x04user\x04pass" {
		return fmt.Errorf("login %q: %w", login, err)
	}
	if _, err := c.Write([]byte{1, 0}); err != nil {
		return err
	}
	request := make([]byte, 10)
	if _, err := io.ReadFull(c, request); err != nil {
		return err
	}
	up, err := net.Dial("tcp", net.JoinHostPort(net.IP(request[4:8]).String(), strconv.Itoa(int(request[8])<<8|int(request[9]))))
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.Close()
	}()
	_, _ = io.Copy(c, up)
	return nil
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	reg := prometheus.NewRegistry()
	first, err := NewMetrics(reg)
	require.NoError(t, err)
	second, err := NewMetrics(reg)
	require.NoError(t, err)
	require.Equal(t, first, second)
	reg = prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "synchronizer_link_frames_total", Help: "taken"}))
	_, err = NewMetrics(reg)
	require.ErrorContains(t, err, "registering metrics of links")
}
