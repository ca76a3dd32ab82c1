// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"crypto/rand"
	"fmt"
	"io"
	"log"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Backend is an API server to stand before, such as *kubetest.Cluster.
type Backend interface {
	// RESTConfig returns address and credentials for requests that bring none.
	RESTConfig() *rest.Config
}

// Config is a Backend: any server, or the cluster as seen by another user.
type Config rest.Config

// RESTConfig implements Backend.
func (c *Config) RESTConfig() *rest.Config { return (*rest.Config)(c) }

// Proxy forwards to one API server. All methods may be called at any time from
// any goroutine.
type Proxy struct {
	base      *url.URL
	trusted   http.RoundTripper // with the backend's credentials
	plain     http.RoundTripper
	closeIdle []func()
	listener  *listener
	server    *http.Server
	authority []byte // PEM
	token     string // of RESTConfig
	begun     time.Time
	serving   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	armed    []*Armed
	watches  map[*exchange]struct{}
	log      []Event
	requests []*Record
}

// Armed is a fault that waits for its requests.
type Armed struct {
	proxy  *Proxy
	match  Match
	fault  Fault
	random *mathrand.Rand

	// guarded by proxy.mu
	off  bool
	seen int // requests that match
	used int // of these, struck or to be struck
	hits int
}

// New starts a proxy before backend on a free port of 127.0.0.1, and closes it
// when the test ends.
func New(t testing.TB, backend Backend) *Proxy {
	t.Helper()
	p, err := start(backend.RESTConfig())
	if err != nil {
		t.Fatalf("starting fault proxy: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

func start(config *rest.Config) (*Proxy, error) {
	p := &Proxy{begun: time.Now(), token: rand.Text(), watches: map[*exchange]struct{}{}}
	var err error
	if p.base, _, err = rest.DefaultServerUrlFor(config); err != nil {
		return nil, fmt.Errorf("reading address: %w", err)
	}
	if p.trusted, err = p.newTransport(config); err != nil {
		return nil, err
	}
	if p.plain, err = p.newTransport(rest.AnonymousClientConfig(config)); err != nil {
		return nil, err
	}
	serving, authority, err := makeCertificate()
	if err != nil {
		return nil, fmt.Errorf("making certificate: %w", err)
	}
	p.authority = authority
	tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	p.listener = &listener{TCPListener: tcp}
	p.server = &http.Server{
		Handler:     p,
		TLSConfig:   serving,
		ConnContext: withConnection,
		// Broken handshakes and connections are what this is for.
		ErrorLog:          log.New(io.Discard, "", 0),
		ReadHeaderTimeout: time.Minute,
	}
	p.serving.Go(func() { _ = p.server.ServeTLS(p.listener, "", "") })
	return p, nil
}

func (p *Proxy) newTransport(config *rest.Config) (http.RoundTripper, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading TLS configuration: %w", err)
	}
	// Compression is between the client and the API server.
	network := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, DisableCompression: true}
	p.closeIdle = append(p.closeIdle, network.CloseIdleConnections)
	transport, err := rest.HTTPWrappersForConfig(config, network)
	if err != nil {
		return nil, fmt.Errorf("reading credentials: %w", err)
	}
	return transport, nil
}

// Close ends everything; it returns when no request runs any more.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.server.Close()
	for _, c := range p.listener.open() {
		c.bury()
	}
	p.serving.Wait()
	for _, closeIdle := range p.closeIdle {
		closeIdle()
	}
}

// Addr returns host:port; package proxy can stand before it.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// RESTConfig returns a configuration that leads through the proxy. Its token
// stands for the credentials of the backend, whatever they are. Requests without
// it go on as they are: as somebody else, or as nobody.
func (p *Proxy) RESTConfig() *rest.Config {
	return &rest.Config{
		Host: "https://" + p.Addr(), BearerToken: p.token, QPS: -1, UserAgent: "faultproxy",
		TLSClientConfig: rest.TLSClientConfig{CAData: p.authority},
	}
}

// Kubeconfig writes a kubeconfig with the meaning of RESTConfig to path.
func (p *Proxy) Kubeconfig(path string) error {
	const entry = "test"
	config := clientcmdapi.NewConfig()
	config.Clusters[entry] = &clientcmdapi.Cluster{Server: "https://" + p.Addr(), CertificateAuthorityData: p.authority}
	config.AuthInfos[entry] = &clientcmdapi.AuthInfo{Token: p.token}
	config.Contexts[entry] = &clientcmdapi.Context{Cluster: entry, AuthInfo: entry}
	config.CurrentContext = entry
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	return nil
}

// Arm strikes requests to come. A request is struck by one fault: the one armed
// first whose turn it is.
func (p *Proxy) Arm(match Match, fault Fault) *Armed {
	a := newArmed(p, match, fault)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = append(p.armed, a)
	return a
}

func newArmed(p *Proxy, match Match, fault Fault) *Armed {
	return &Armed{proxy: p, match: match, fault: fault, random: mathrand.New(mathrand.NewPCG(match.seed, 0))}
}

// Strike lets a fault hit the matching watches that are open, each at once or
// when After more events have passed. It returns how many there are. Times and
// Nth choose among them in the order in which they were asked for. A fault that
// replaces an answer (Answer, BlackHole) does nothing here.
func (p *Proxy) Strike(match Match, fault Fault) int {
	a := newArmed(p, match, fault)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.watchesInOrder() {
		if a.takes(e.target) {
			select {
			case e.strikes <- a:
			default: // as many as strikeQueue wait already
				a.used--
			}
		}
	}
	return a.used
}

// Clear disarms every fault. What is broken stays broken.
func (p *Proxy) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.armed {
		a.off = true
	}
	p.armed = nil
}

// KillConnections makes every open connection deaf and dumb without closing it
// (see DeadConnection) and returns how many. New ones work.
func (p *Proxy) KillConnections() int { return p.onAll("dead connection", (*connection).kill) }

// CutConnections resets every open connection and returns how many.
func (p *Proxy) CutConnections() int { return p.onAll("cut", (*connection).reset) }

func (p *Proxy) onAll(fault string, do func(*connection)) int {
	count := 0
	for _, c := range p.listener.open() {
		if c.dead.Load() {
			continue
		}
		do(c)
		count++
		p.mu.Lock()
		p.note(Event{Fault: fault, Connection: c.number})
		p.mu.Unlock()
	}
	return count
}

// Disarm ends the fault for requests to come.
func (a *Armed) Disarm() {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	a.off = true
}

// Count returns how often the fault has struck; each event that Drop kept back counts.
func (a *Armed) Count() int {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	return a.hits
}

// takes decides whether the next request is struck. The caller holds proxy.mu.
func (a *Armed) takes(t target) bool {
	m := a.match
	if a.off || !m.matches(t) {
		return false
	}
	a.seen++
	if a.seen <= m.skip || m.times > 0 && a.used >= m.times {
		return false
	}
	if m.chance > 0 && a.random.Float64() >= m.chance {
		return false
	}
	a.used++
	return true
}

// strikeQueue is how many faults may wait for one watch to notice them.
const strikeQueue = 16

// ServeHTTP answers one request; only the proxy's own server calls it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	e := &exchange{proxy: p, w: w, r: r, target: readTarget(r), connection: c, strikes: make(chan *Armed, strikeQueue)}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	p.serving.Add(1)
	defer p.serving.Done()
	p.record(e)
	for _, a := range p.armed {
		if a.takes(e.target) {
			e.begin(a)
			break
		}
	}
	p.mu.Unlock()
	defer p.ended(e.id)
	e.serve()
}
