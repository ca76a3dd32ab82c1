// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	chunkBytes = 16 << 10
	// queued chunks per connection and direction: 1 MiB, beyond which the sender waits.
	queued = 64
)

// link is one forwarded connection.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn
	once           sync.Once
	done           chan struct{}  // closed by reset
	mute           [2]atomic.Bool // half-closed by the test, by direction
}

// chunk is some bytes on their way; no bytes mean the end of the stream.
type chunk struct {
	bytes []byte
	due   time.Time
}

func (l *link) ends(direction Direction) (from, to *net.TCPConn) {
	if direction == ToTarget {
		return l.client, l.server
	}
	return l.server, l.client
}

// run forwards both directions and returns when both have ended.
func (l *link) run() {
	var running sync.WaitGroup
	for _, direction := range []Direction{ToTarget, ToClient} {
		chunks := make(chan chunk, queued)
		running.Go(func() { l.read(direction, chunks) })
		running.Go(func() { l.write(direction, chunks) })
	}
	running.Wait()
	l.once.Do(func() { close(l.done) })
	_ = l.client.Close()
	_ = l.server.Close()
}

func (l *link) read(direction Direction, chunks chan<- chunk) {
	from, _ := l.ends(direction)
	for {
		buffer := make([]byte, chunkBytes)
		n, err := from.Read(buffer)
		due := time.Now().Add(time.Duration(l.proxy.delay.Load()))
		if n > 0 && !l.queue(chunks, chunk{bytes: buffer[:n], due: due}) {
			return
		}
		if errors.Is(err, io.EOF) {
			l.queue(chunks, chunk{due: due})
			return
		}
		if err != nil {
			l.reset()
			return
		}
	}
}

func (l *link) queue(chunks chan<- chunk, c chunk) bool {
	select {
	case chunks <- c:
		return true
	case <-l.done:
		return false
	}
}

func (l *link) write(direction Direction, chunks <-chan chunk) {
	_, to := l.ends(direction)
	for {
		var c chunk
		select {
		case c = <-chunks:
		case <-l.done:
			return
		}
		if !l.await(c.due) {
			return
		}
		if len(c.bytes) == 0 {
			_ = to.CloseWrite()
			return
		}
		if l.mute[direction].Load() {
			continue
		}
		l.proxy.spoil(direction, c.bytes)
		n, err := to.Write(c.bytes)
		l.proxy.bytes[direction].Add(int64(n))
		if err != nil && !l.mute[direction].Load() {
			l.reset()
			return
		}
	}
}

// await returns true when due has come and bytes may pass, false when the
// connection is reset before.
func (l *link) await(due time.Time) bool {
	if wait := time.Until(due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.done:
			return false
		}
	}
	select {
	case <-l.proxy.passable():
		return true
	case <-l.done:
		return false
	}
}

func (l *link) halfClose(direction Direction) {
	_, to := l.ends(direction)
	l.mute[direction].Store(true)
	_ = to.CloseWrite()
}

// reset ends both sides with a TCP reset.
func (l *link) reset() {
	l.once.Do(func() {
		close(l.done)
		abort(l.client)
		abort(l.server)
	})
}

// abort closes a connection with a TCP reset instead of an orderly end.
func abort(connection *net.TCPConn) {
	_ = connection.SetLinger(0)
	_ = connection.Close()
}
