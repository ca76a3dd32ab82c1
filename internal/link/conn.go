// SPDX-License-Identifier: Apache-2.0

package link

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// conn gives a network connection limits of time without progress, joins the
// many small writes of one Send into few large ones, and reads far ahead while
// there is much to read.
type conn struct {
	net.Conn
	readIdle  atomic.Int64 // nanoseconds; 0: no limit
	writeIdle time.Duration

	// Owned by whoever reads.
	much  bool    // the last read filled its buffer
	chunk *[]byte // nil: nothing was read ahead
	ahead []byte  // of it, not yet given

	mu     sync.Mutex
	corked *[]byte // waits for uncork; nil: write at once
}

func newConn(inner net.Conn, readIdle, writeIdle time.Duration) *conn {
	c := &conn{Conn: inner, writeIdle: writeIdle}
	c.readIdle.Store(int64(readIdle))
	return c
}

var chunks = sync.Pool{New: func() any {
	b := make([]byte, 0, chunkBytes)
	return &b
}}

// Read asks the system for much more than p holds when the read before filled its
// buffer, which is that of the WebSocket's reader: a frame of 2 KiB then costs a
// small part of a system call. An idle connection keeps no chunk: it waits in a
// read into p.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		return c.give(p), nil
	}
	if idle := c.readIdle.Load(); idle > 0 {
		if err := c.SetReadDeadline(time.Now().Add(time.Duration(idle))); err != nil {
			return 0, err
		}
	}
	if !c.much || len(p) >= chunkBytes {
		c.release()
		n, err := c.Conn.Read(p)
		// A larger p is what is left of one frame: it is filled by the frame's end.
		c.much = n == len(p) && n <= readerBytes
		return n, err
	}
	if c.chunk == nil {
		c.chunk = chunks.Get().(*[]byte)
	}
	buf := (*c.chunk)[:chunkBytes]
	n, err := c.Conn.Read(buf)
	c.ahead, c.much = buf[:n], n > chunkBytes/2
	return c.give(p), err
}

// give copies what was read ahead, and gives the chunk back after the last byte,
// unless there is much to read.
func (c *conn) give(p []byte) int {
	n := copy(p, c.ahead)
	c.ahead = c.ahead[n:]
	if len(c.ahead) == 0 && !c.much {
		c.release()
	}
	return n
}

// release gives the chunk back, from which all was read.
func (c *conn) release() {
	if c.chunk != nil {
		chunks.Put(c.chunk)
		c.chunk, c.ahead = nil, nil
	}
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
