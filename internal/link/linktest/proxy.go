// SPDX-License-Identifier: Apache-2.0

package linktest

import (
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// Proxy is a forward proxy that opens tunnels (CONNECT) and nothing else. Set its
// fields before it is used.
type Proxy struct {
	// Host is its host:port.
	Host string
	// User and Password are asked for; empty: nothing is.
	User, Password string
	// Hosts says where names really are ("backend.example.test:443"); others are
	// dialed as they are.
	Hosts map[string]string

	mu       sync.Mutex
	refuse   int // answer everything with this status
	connects []Connect
	tunnels  map[net.Conn]struct{}
}

// Connect is a CONNECT that a proxy got.
type Connect struct {
	Target        string
	Authorization string // the header Proxy-Authorization
}

// NewProxy listens until the test ends.
func NewProxy(t testing.TB) *Proxy { return newProxy(t, (*httptest.Server).Start) }

// NewTLSProxy is one that is spoken to over TLS; its certificate is for 127.0.0.1
// and example.com.
func NewTLSProxy(t testing.TB) (p *Proxy, certificate *x509.Certificate) {
	p = newProxy(t, func(server *httptest.Server) {
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust it
		server.StartTLS()
		certificate = server.Certificate()
	})
	return p, certificate
}

func newProxy(t testing.TB, start func(*httptest.Server)) *Proxy {
	p := &Proxy{tunnels: map[net.Conn]struct{}{}}
	server := httptest.NewUnstartedServer(p)
	start(server)
	p.Host = server.Listener.Addr().String()
	t.Cleanup(func() {
		p.Cut()
		server.Close()
	})
	return p
}

// URL is what a client is configured with.
func (p *Proxy) URL(scheme string) *url.URL {
	u := &url.URL{Scheme: scheme, Host: p.Host}
	if p.User != "" {
		u.User = url.UserPassword(p.User, p.Password)
	}
	return u
}

// Connects is every CONNECT so far.
func (p *Proxy) Connects() []Connect {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.connects)
}

// Refuse makes it answer every CONNECT with an HTTP status; 0 ends that.
func (p *Proxy) Refuse(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = status
}

// Cut ends all tunnels.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.tunnels {
		_ = c.Close() // it may have ended
	}
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.connects = append(p.connects, Connect{r.Host, r.Header.Get("Proxy-Authorization")})
	refuse := p.refuse
	p.mu.Unlock()
	user, password := "", ""
	if text := r.Header.Get("Proxy-Authorization"); text != "" {
		r.Header.Set("Authorization", text) // to have it read
		user, password, _ = r.BasicAuth()
	}
	switch {
	case refuse != 0:
		w.WriteHeader(refuse)
		return
	case r.Method != http.MethodConnect:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case user != p.User || password != p.Password:
		w.Header().Set("Proxy-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	target := r.Host
	if at, ok := p.Hosts[target]; ok {
		target = at
	}
	up, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", target)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	down, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = up.Close()
		return
	}
	p.carry(down, rw, up)
}

// carry copies in both directions until one ends.
func (p *Proxy) carry(down net.Conn, fromDown io.Reader, up net.Conn) {
	p.mu.Lock()
	p.tunnels[down], p.tunnels[up] = struct{}{}, struct{}{}
	p.mu.Unlock()
	end := func() {
		_ = down.Close()
		_ = up.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.tunnels, down)
		delete(p.tunnels, up)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(up, fromDown)
		end()
	}()
	_, _ = io.Copy(down, up)
	end()
	<-done
}
