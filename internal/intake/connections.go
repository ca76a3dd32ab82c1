// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"net"
	"sync"
)

const (
	// busyConnections is how many may stay open between two requests,
	// maxConnections how many there can be; each costs some 20 KiB.
	busyConnections = 1024
	maxConnections  = 4096
)

// limitedListener accepts a connection only while a token is left for it.
type limitedListener struct {
	net.Listener
	tokens chan struct{}
	closed chan struct{}
	close  func() error
}

func newLimitedListener(l net.Listener, tokens chan struct{}) *limitedListener {
	limited := &limitedListener{Listener: l, tokens: tokens, closed: make(chan struct{})}
	limited.close = sync.OnceValue(func() error {
		close(limited.closed)
		return l.Close()
	})
	return limited
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.tokens <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.tokens
		return nil, err
	}
	return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.tokens })}, nil
}

func (l *limitedListener) Close() error { return l.close() }

// limitedConn gives its token back when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite is how net/http lets the caller read an answer whose request it
// did not read to the end.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
