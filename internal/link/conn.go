// SPDX-License-Identifier: Apache-2.0

package link

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// conn gives a network connection limits of time without progress, and joins
// the many small writes of one Send into few large ones.
type conn struct {
	net.Conn
	readIdle  time.Duration // 0: no limit
	writeIdle time.Duration

	mu     sync.Mutex
	corked *[]byte // waits for uncork; nil: write at once
}

var chunks = sync.Pool{New: func() any {
	b := make([]byte, 0, chunkBytes)
	return &b
}}

func (c *conn) Read(p []byte) (int, error) {
	if c.readIdle > 0 {
		if err := c.SetReadDeadline(time.Now().Add(c.readIdle)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p)
}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.corked == nil {
		return c.write(p)
	}
	written := 0
	for written < len(p) {
		rest := p[written:]
		buf := *c.corked
		if len(buf) == 0 && len(rest) >= chunkBytes {
			n, err := c.write(rest[:chunkBytes])
			written += n
			if err != nil {
				return written, err
			}
			continue
		}
		n := min(len(rest), chunkBytes-len(buf))
		*c.corked = append(buf, rest[:n]...)
		written += n
		if len(*c.corked) == chunkBytes {
			if err := c.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// cork makes Write collect until uncork.
func (c *conn) cork() {
	buf := chunks.Get().(*[]byte)
	c.mu.Lock()
	c.corked = buf
	c.mu.Unlock()
}

func (c *conn) uncork() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.flush()
	chunks.Put(c.corked)
	c.corked = nil
	return err
}

func (c *conn) flush() error {
	buf := *c.corked
	*c.corked = buf[:0]
	if len(buf) == 0 {
		return nil
	}
	_, err := c.write(buf)
	return err
}

// write writes all of p. Each chunk has its own deadline, and one that got some
// bytes through before it expired goes on with the rest.
func (c *conn) write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		if err := c.SetWriteDeadline(time.Now().Add(c.writeIdle)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written:min(len(p), written+chunkBytes)])
		written += n
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return written, err
		}
	}
	return written, nil
}

// abort ends the connection without any farewell; blocked calls return.
func (c *conn) abort() {
	inner := c.Conn
	if t, ok := inner.(*tls.Conn); ok {
		inner = t.NetConn() // Close of TLS may wait five seconds for its alert
	}
	// It may be closed already, and there is nothing to save.
	_ = inner.Close()
}
