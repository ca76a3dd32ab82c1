// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
)

// connection is one TCP connection of a client, below TLS.
type connection struct {
	*net.TCPConn
	number int
	writes atomic.Int64 // calls of Write so far

	dead   atomic.Bool // neither hears nor says anything
	mute   atomic.Bool // says nothing
	once   sync.Once
	closed chan struct{}
}

type connectionKey struct{}

// withConnection is the ConnContext of the server.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// Read hides from a dead connection that the client still talks, or has gone.
func (c *connection) Read(p []byte) (int, error) {
	for {
		n, err := c.TCPConn.Read(p)
		switch {
		case !c.dead.Load():
			return n, err
		case err != nil:
			<-c.closed
			return 0, err
		}
	}
}

func (c *connection) Write(p []byte) (int, error) {
	if c.dead.Load() || c.mute.Load() {
		return len(p), nil
	}
	n, err := c.TCPConn.Write(p)
	c.writes.Add(1)
	return n, err
}

// Close keeps a dead connection open towards the client, who must not learn of
// it; bury ends it.
func (c *connection) Close() error {
	c.once.Do(func() { close(c.closed) })
	if c.dead.Load() {
		return nil
	}
	return c.TCPConn.Close()
}

// bury closes the connection, even a dead one.
func (c *connection) bury() {
	c.once.Do(func() { close(c.closed) })
	_ = c.TCPConn.Close()
}

func (c *connection) reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

func (c *connection) halfClose() {
	c.mute.Store(true)
	_ = c.CloseWrite()
}

func (c *connection) kill() { c.dead.Store(true) }

// listener makes connections of what it accepts and remembers them.
type listener struct {
	*net.TCPListener

	mu          sync.Mutex
	accepted    int
	connections []*connection
}

func (l *listener) Accept() (net.Conn, error) {
	tcp, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted++
	c := &connection{TCPConn: tcp, number: l.accepted, closed: make(chan struct{})}
	l.connections = append(l.connections, c)
	return c, nil
}

// open returns the connections that the proxy has not closed; those that have
// ended are forgotten.
func (l *listener) open() []*connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	var open []*connection
	for _, c := range l.connections {
		select {
		case <-c.closed:
			if !c.dead.Load() {
				continue
			}
		default:
		}
		open = append(open, c)
	}
	l.connections = open
	return append([]*connection(nil), open...)
}
