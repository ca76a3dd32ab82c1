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

	reading sync.Mutex // held while a Read or await waits
	much    bool       // the last read filled its buffer
	limited bool       // there is a deadline for reads
	chunk   *[]byte    // nil: small was enough
	small   [readerBytes]byte
	ahead   []byte // of one of the two, not yet given
	failed  error  // of the read that gave ahead

	mu     sync.Mutex
	corked *[]byte // waits for uncork; nil: write at once

	broken atomic.Bool // reading or writing has failed, or abort was called
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
// buffer, that of the WebSocket's reader or small: a frame of 2 KiB then costs a
// small part of a system call. An idle connection keeps no chunk: it waits in a
// read into small.
func (c *conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(c.ahead) > 0 {
		return c.give(p), nil
	}
	if c.failed != nil {
		return 0, c.failed
	}
	if len(p) >= chunkBytes || !c.much && len(p) >= readerBytes {
		c.release()
		if err := c.startIdle(0); err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(p)
		if err != nil {
			c.broken.Store(true)
		}
		// A larger p is what is left of one frame: it is filled by the frame's end.
		c.much = n == len(p) && n <= clientReaderBytes
		return n, err
	}
	if c.fill(0); c.failed != nil {
		c.broken.Store(true)
	}
	if len(c.ahead) > 0 {
		return c.give(p), nil
	}
	return 0, c.failed
}

// await returns when Read would give something, be it an error; false when most,
// if it is not 0, has passed before. Little stands on the stack while it waits.
func (c *conn) await(most time.Duration) bool {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(c.ahead) > 0 {
		return true
	}
	c.fill(most)
	if idle := time.Duration(c.readIdle.Load()); most > 0 && (idle == 0 || most < idle) && errors.Is(c.failed, os.ErrDeadlineExceeded) {
		c.failed = nil
		return len(c.ahead) > 0
	}
	if c.failed != nil {
		c.broken.Store(true)
	}
	return true
}

// fill reads ahead. All was given.
func (c *conn) fill(most time.Duration) {
	if c.failed != nil {
		return
	}
	if c.failed = c.startIdle(most); c.failed != nil {
		return
	}
	if !c.much {
		c.release()
		var n int
		n, c.failed = c.Conn.Read(c.small[:])
		c.ahead, c.much = c.small[:n], n == len(c.small)
		return
	}
	if c.chunk == nil {
		c.chunk = chunks.Get().(*[]byte)
	}
	buf := (*c.chunk)[:chunkBytes]
	var n int
	n, c.failed = c.Conn.Read(buf)
	c.ahead, c.much = buf[:n], n > chunkBytes/2
	if n == 0 {
		c.release()
	}
}

// startIdle begins the time after which a peer that is silent is given up, or most
// if that is less and not 0.
func (c *conn) startIdle(most time.Duration) error {
	idle := time.Duration(c.readIdle.Load())
	if most > 0 && (idle == 0 || most < idle) {
		idle = most
	}
	if idle > 0 {
		c.limited = true
		return c.SetReadDeadline(time.Now().Add(idle))
	}
	if c.limited {
		c.limited = false
		return c.SetReadDeadline(time.Time{})
	}
	return nil
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
			c.broken.Store(true)
			return written, err
		}
	}
	return written, nil
}

// abort ends the connection without any farewell; blocked calls return.
func (c *conn) abort() {
	c.broken.Store(true)
	inner := c.Conn
	if t, ok := inner.(*tls.Conn); ok {
		inner = t.NetConn() // Close of TLS may wait five seconds for its alert
	}
	// It may be closed already, and there is nothing to save.
	_ = inner.Close()
}
