// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"synchronizer"
	"synchronizer/internal/telemetry/traceparent"
	"synchronizer/internal/wire"
)

// v1 is either end of a link v1.
type v1 struct {
	ws     *websocket.Conn
	conn   *conn
	hello  synchronizer.Hello
	limits Limits
	drop   synchronizer.DropFunc
	frames *Metrics

	sending chan struct{} // holds one token while a Send is in progress
	ready   chan struct{} // closed when the peer may be written to
	dead    chan struct{} // closed when err is set
	running sync.WaitGroup
	closing sync.Once
	heard   sync.Once     // closes ready
	count   atomic.Uint64 // frames of the peer, its farewell included

	// Of a server's end.
	pingEvery time.Duration // what the client asked for; 0: nothing
	reader    *bufio.Reader // what the WebSocket reads through

	mu    sync.Mutex
	err   error       // the first one; it never changes
	pings *time.Timer // nil: none are sent
}

func newV1(ws *websocket.Conn, c *conn, hello synchronizer.Hello, limits Limits, drop synchronizer.DropFunc, frames *Metrics) *v1 {
	ws.SetReadLimit(-1) // receive has a limit that keeps the connection
	if drop == nil {
		drop = func(synchronizer.DropReason, string) {}
	}
	return &v1{
		ws: ws, conn: c, hello: hello, limits: limits, drop: drop, frames: frames,
		sending: make(chan struct{}, 1), ready: make(chan struct{}), dead: make(chan struct{}),
	}
}

// Peer implements synchronizer.Link.
func (l *v1) Peer() synchronizer.Hello { return l.hello }

// Heard is how many frames the peer has sent so far. Its farewell is one too: who
// says or answers it has read, or wants to read, nothing more.
func (l *v1) Heard() uint64 { return l.count.Load() }

// Send implements synchronizer.Link. Frames that are too large or cannot be
// written in v1 are dropped by name, and the error names the first.
func (l *v1) Send(ctx context.Context, msgs ...synchronizer.Message) error {
	if err := l.lockSend(ctx); err != nil {
		return err
	}
	defer func() { <-l.sending }()
	defer l.failAtEndOf(ctx, "sending")()

	refused, err := l.write(msgs)
	switch {
	case err != nil:
		return l.fail(fmt.Errorf("%w: sending: %w", synchronizer.ErrDisconnected, err))
	case refused != nil:
		return refused
	}
	return nil
}

// RefusedError is what Send says when it has dropped some of the messages by name and
// written the others.
type RefusedError struct {
	Messages []int // their indices, in order
	Err      error // about the first
}

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap gives the first reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// lockSend waits for its turn and, on the server, for the client's first frame.
func (l *v1) lockSend(ctx context.Context) error {
	if ctx.Err() != nil {
		return l.fail(fmt.Errorf("%w: sending: %w", synchronizer.ErrDisconnected, context.Cause(ctx)))
	}
	defer l.failAtEndOf(ctx, "waiting to send")()
	select {
	case l.sending <- struct{}{}:
	case <-l.dead:
		return l.failure()
	}
	var expired <-chan time.Time
	select {
	case <-l.ready:
	default:
		timer := time.NewTimer(l.limits.WriteTimeout)
		defer timer.Stop()
		expired = timer.C
	}
	var err error
	select {
	case <-l.dead:
		err = l.failure()
	case <-expired:
		err = l.fail(fmt.Errorf("%w: the client sent nothing within %s", synchronizer.ErrDisconnected, l.limits.WriteTimeout))
	case <-l.ready:
		select {
		case <-l.dead: // of two that are true, this one counts
			err = l.failure()
		default:
			return nil
		}
	}
	<-l.sending
	return err
}

var frameBuffers = sync.Pool{New: func() any { return new([]byte) }}

func (l *v1) write(msgs []synchronizer.Message) (refused *RefusedError, err error) {
	buf := frameBuffers.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= maxPooledBytes {
			frameBuffers.Put(buf)
		}
	}()
	l.conn.cork()
	defer func() {
		if flushed := l.conn.uncork(); err == nil {
			err = flushed
		}
	}()
	for i := range msgs {
		m := &msgs[i]
		if err := l.encode(buf, m); err != nil {
			if refused == nil {
				refused = &RefusedError{Err: err}
			}
			refused.Messages = append(refused.Messages, i)
			continue
		}
		// The deadlines are those of conn; a context would cost a goroutine a frame.
		if err := l.ws.Write(context.Background(), websocket.MessageBinary, *buf); err != nil {
			return nil, err
		}
		l.frames.sent(m.Event, len(*buf))
	}
	return refused, nil
}

// encode writes the frame of m into buf, unless it must not be sent.
func (l *v1) encode(buf *[]byte, m *synchronizer.Message) error {
	size := len(m.Body)
	for i := range m.Items {
		size += len(m.Items[i].Body)
	}
	if size <= l.limits.MaxMessageBytes { // else it need not be tried
		frame, err := wire.AppendV1((*buf)[:0], m)
		*buf = frame
		if err != nil {
			l.drop(synchronizer.DropMalformed, traceparent.Named("to the peer: "+wire.Name(m)+": "+err.Error(), m.TraceParent))
			return fmt.Errorf("encoding %s: %w", wire.Name(m), err)
		}
		size = len(frame)
	}
	if size > l.limits.MaxMessageBytes {
		l.drop(synchronizer.DropTooLarge, traceparent.Named(fmt.Sprintf("to the peer: %s (%d bytes, maximum %d)", wire.Name(m), size, l.limits.MaxMessageBytes), m.TraceParent))
		return fmt.Errorf("%w: %s has %d bytes, maximum %d", synchronizer.ErrTooLarge, wire.Name(m), size, l.limits.MaxMessageBytes)
	}
	return nil
}

// Close implements synchronizer.Link.
func (l *v1) Close(code int, reason string) error {
	return l.closeWithin(l.limits.CloseTimeout, code, reason)
}

// CloseWithin is Close of a link that waits so long for the farewell of the peer, which
// comes behind all that it has not read yet.
func CloseWithin(l synchronizer.Link, most time.Duration, code int, reason string) error {
	if inner, ok := find[*v1](l); ok {
		return inner.closeWithin(most, code, reason)
	}
	return l.Close(code, reason)
}

func (l *v1) closeWithin(wait time.Duration, code int, reason string) error {
	l.setError(fmt.Errorf("link: %w", synchronizer.ErrClosed))
	l.closing.Do(func() {
		const most = 123 // of a control frame
		done := make(chan struct{})
		go func() {
			defer close(done)
			// Without an error the peer has answered, if it was not the connection that
			// ended, and nobody else has read that; with a status it has in its own words.
			err := l.ws.Close(websocket.StatusCode(code), reason[:min(len(reason), most)])
			if err == nil && !l.conn.broken.Load() || websocket.CloseStatus(err) >= 0 {
				l.count.Add(1)
			}
		}()
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
		l.conn.abort()
		<-done
	})
	l.running.Wait()
	return nil
}

// fail ends the link because of err, unless it has ended before; it returns
// why it ended.
func (l *v1) fail(err error) error {
	l.setError(err)
	first := l.failure()
	if !errors.Is(first, synchronizer.ErrClosed) {
		l.conn.abort() // Close wants to say goodbye, the others do not
	}
	return first
}

func (l *v1) setError(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.dead)
		if l.pings != nil {
			l.pings.Stop()
		}
	}
}

func (l *v1) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// failAtEndOf ends the link when ctx ends before the returned function is called.
func (l *v1) failAtEndOf(ctx context.Context, doing string) func() {
	if ctx.Done() == nil {
		return func() {}
	}
	stop := context.AfterFunc(ctx, func() {
		_ = l.fail(fmt.Errorf("%w: %s: %w", synchronizer.ErrDisconnected, doing, context.Cause(ctx)))
	})
	return func() { stop() }
}
