// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Direction is a way through the proxy.
type Direction int

// The two directions: from who connected towards the target, and back.
const (
	ToTarget Direction = iota
	ToClient
)

// dialTimeout bounds connecting to the target, which is on the same machine.
const dialTimeout = 5 * time.Second

// Proxy forwards connections to one target at a time. All methods may be called
// at any time from any goroutine; faults apply to connections that are open and
// to those that come.
type Proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	delay     atomic.Int64    // nanoseconds
	corrupt   [2]atomic.Int64 // chunks still to corrupt, by direction
	bytes     [2]atomic.Int64 // forwarded, by direction
	corrupted atomic.Int64
	accepted  atomic.Int64
	refused   atomic.Int64

	mu     sync.Mutex
	target string
	refuse bool
	closed bool
	links  map[*link]struct{}
	// open is closed while bytes may pass; BlackHole(true) replaces it.
	open chan struct{}
}

// Counters are numbers since New, except Open.
type Counters struct {
	Accepted  int64    // connections forwarded or tried to
	Refused   int64    // connections reset because of Refuse or an unreachable target
	Open      int      // connections now
	Bytes     [2]int64 // bytes written to the other side, by Direction
	Corrupted int64    // chunks changed
}

// New starts a proxy to target (host:port) on a free port of 127.0.0.1 and
// closes it when the test ends.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("opening proxy: %v", err)
	}
	p := &Proxy{listener: listener, target: target, links: map[*link]struct{}{}, open: make(chan struct{})}
	close(p.open)
	p.running.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Addr returns host:port to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close resets all connections and stops accepting.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}

// SetTarget sends later connections to another target.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Cut resets every open connection on both sides. New ones are accepted.
func (p *Proxy) Cut() {
	for _, l := range p.snapshot() {
		l.reset()
	}
}

// Refuse resets new connections at once while it is on. Open ones stay.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// BlackHole holds back every byte and every end of stream while it is on; both
// ends still believe to be connected, and can connect. What was held is
// delivered afterwards, as TCP does after an outage.
func (p *Proxy) BlackHole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		if on {
			p.open = make(chan struct{})
		}
	default:
		if !on {
			close(p.open)
		}
	}
}

// Delay adds d to the time that bytes take in each direction, without limiting
// how many are on the way (up to 1 MiB per connection and direction).
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// HalfClose ends the stream in one direction on every open connection, as if
// its sender had said that it has no more to say. The other direction goes on;
// what the sender says later in this one is swallowed.
func (p *Proxy) HalfClose(direction Direction) {
	for _, l := range p.snapshot() {
		l.halfClose(direction)
	}
}

// Corrupt inverts one byte in each of the next chunks (of at most 16 KiB) that
// pass in a direction.
func (p *Proxy) Corrupt(direction Direction, chunks int) {
	p.corrupt[direction].Store(int64(chunks))
}

// Counters returns what has happened so far.
func (p *Proxy) Counters() Counters {
	return Counters{
		Accepted: p.accepted.Load(), Refused: p.refused.Load(), Open: len(p.snapshot()),
		Bytes:     [2]int64{p.bytes[ToTarget].Load(), p.bytes[ToClient].Load()},
		Corrupted: p.corrupted.Load(),
	}
}

func (p *Proxy) snapshot() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	return links
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.forward(client.(*net.TCPConn)) })
	}
}

// forward connects client to the target until either is gone.
func (p *Proxy) forward(client *net.TCPConn) {
	p.mu.Lock()
	target, refuse := p.target, p.refuse || p.closed
	p.mu.Unlock()
	if refuse {
		p.refused.Add(1)
		abort(client)
		return
	}
	p.accepted.Add(1)
	server, err := net.DialTimeout("tcp", target, dialTimeout)
	if err != nil {
		p.refused.Add(1)
		abort(client)
		return
	}
	l := &link{proxy: p, client: client, server: server.(*net.TCPConn), done: make(chan struct{})}
	p.mu.Lock()
	p.links[l] = struct{}{}
	closed := p.closed
	p.mu.Unlock()
	if closed { // Close may have taken its list before
		l.reset()
	}
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// passable returns a channel that is closed once bytes may pass.
func (p *Proxy) passable() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// spoil corrupts chunk if one is due in this direction.
func (p *Proxy) spoil(direction Direction, chunk []byte) {
	for {
		due := p.corrupt[direction].Load()
		if due <= 0 {
			return
		}
		if p.corrupt[direction].CompareAndSwap(due, due-1) {
			chunk[len(chunk)/2] ^= 0xff
			p.corrupted.Add(1)
			return
		}
	}
}
