// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/coder/websocket"

	"synchronizer"
	"synchronizer/internal/telemetry/traceparent"
	"synchronizer/internal/wire"
)

// Receive implements synchronizer.Link.
func (l *v1) Receive(ctx context.Context) (synchronizer.Message, error) {
	if ctx.Err() != nil {
		return synchronizer.Message{}, l.fail(fmt.Errorf("%w: receiving: %w", synchronizer.ErrDisconnected, context.Cause(ctx)))
	}
	defer l.failAtEndOf(ctx, "receiving")()
	var m synchronizer.Message
	for {
		ok, err := l.Poll(&m)
		if ok || err != nil {
			return m, err
		}
	}
}

func (l *v1) receivingFailed(err error) error {
	return l.fail(fmt.Errorf("%w: receiving: %w", synchronizer.ErrDisconnected, err))
}

// Patient is a server's end of a link for whoever has many idle clients. A goroutine
// that waits in Await needs an eighth of the stack of one that waits in Receive. Its
// methods take the place of Receive: one goroutine at a time.
type Patient interface {
	// Await returns when there is something to read, or the link has ended.
	Await()
	// AwaitFor is Await for a while; it is false when that is over.
	AwaitFor(time.Duration) bool
	// Poll reads one frame into m, and waits for it. It is false if there is no
	// message in it, such as in a Ping. It has the errors of Receive.
	Poll(m *synchronizer.Message) (bool, error)
}

// AsPatient finds it in a link, or in what is wrapped by one that has a method Below;
// nil if it is none.
func AsPatient(l synchronizer.Link) Patient {
	p, _ := find[Patient](l)
	return p
}

// find gives the first of l, and of what it wraps, that is a T. Those that wrap a link
// have a method Below.
func find[T any](l synchronizer.Link) (none T, ok bool) {
	for {
		if found, ok := l.(T); ok {
			return found, true
		}
		wraps, ok := l.(interface{ Below() synchronizer.Link })
		if !ok {
			return none, false
		}
		l = wraps.Below()
	}
}

// Poll implements Patient.
func (l *v1) Poll(m *synchronizer.Message) (bool, error) {
	ok, err := l.receive(m)
	if err != nil {
		return false, l.receivingFailed(err)
	}
	return ok, nil
}

// Await implements Patient.
func (l *v1) Await() {
	if l.mustAwait() {
		l.conn.await(0)
	}
}

// AwaitFor implements Patient.
func (l *v1) AwaitFor(most time.Duration) bool { return !l.mustAwait() || l.conn.await(most) }

// mustAwait is false if something was read already that nobody has looked at.
func (l *v1) mustAwait() bool {
	if l.reader == nil {
		return false // a client's end, where Poll waits
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// While the link has not ended, nobody but the caller reads.
	return l.err == nil && l.reader.Buffered() == 0
}

// receive reads one frame; false if there is nothing in it for the caller.
func (l *v1) receive(m *synchronizer.Message) (bool, error) {
	typ, reader, err := l.ws.Reader(context.Background())
	if err == nil || websocket.CloseStatus(err) >= 0 {
		l.count.Add(1)
	}
	if err != nil {
		return false, err
	}
	l.heard.Do(l.firstFrame)
	if typ != websocket.MessageBinary {
		size, err := io.Copy(io.Discard, reader)
		l.drop(synchronizer.DropNotAMessage, fmt.Sprintf("%d bytes of text", size))
		return false, err
	}
	buf := frameBuffers.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= maxPooledBytes {
			frameBuffers.Put(buf)
		}
	}()
	frame, size, err := readFrame(reader, (*buf)[:0], l.limits.MaxMessageBytes)
	*buf = frame
	if err != nil {
		return false, err
	}
	if size > int64(len(frame)) {
		l.frames.received(synchronizer.EventUnknown, int(size))
		l.drop(synchronizer.DropTooLarge, fmt.Sprintf("%s (%d bytes, maximum %d)", wire.PeekName(frame), size, l.limits.MaxMessageBytes))
		return false, nil
	}
	return l.parse(frame, m), nil
}

// firstFrame lets the server write.
func (l *v1) firstFrame() {
	close(l.ready)
	if l.pingEvery > 0 {
		l.startPinging(0, l.pingEvery)
	}
}

func (l *v1) parse(frame []byte, m *synchronizer.Message) bool {
	var err error
	*m, err = wire.ParseV1(frame, wire.Limits{})
	l.frames.received(m.Event, len(frame)) // Unknown if it is malformed
	switch {
	case err != nil:
		l.drop(synchronizer.DropMalformed, wire.PeekName(frame[:min(len(frame), prefixBytes)])+": "+err.Error())
	case m.Event == synchronizer.EventPing:
		l.pinged()
	case m.Event == synchronizer.EventUnknown:
		l.drop(synchronizer.DropUnknownEvent, wire.PeekName(frame[:min(len(frame), prefixBytes)]))
	case m.Depth > synchronizer.MaxDepth:
		l.drop(synchronizer.DropTooDeep, traceparent.Named(fmt.Sprintf("%s %s (depth %d)", wire.EventName(m.Event), wire.Name(m), m.Depth), m.TraceParent))
	default:
		return true
	}
	return false
}

// readFrame appends a message to buf. If it is larger than most, only its
// beginning is kept, and size is greater than len(frame).
func readFrame(r io.Reader, buf []byte, most int) (frame []byte, size int64, err error) {
	for {
		if len(buf) == cap(buf) {
			next := max(2*cap(buf), 4<<10)
			if cap(buf) >= maxPooledBytes { // large ones grow less, for the old one lives beside the new
				next = cap(buf) + cap(buf)/2
			}
			grown := make([]byte, len(buf), min(next, most+1))
			copy(grown, buf)
			buf = grown
		}
		// A pooled buffer may be larger than the maximum of this link.
		n, err := r.Read(buf[len(buf):min(cap(buf), most+1)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > most:
			frame = append(make([]byte, 0, prefixBytes), buf[:min(most, prefixBytes)]...)
			size = int64(len(buf))
			buf = nil //nolint:wastedassign // the large one must not live while the rest is read
			rest, err := io.Copy(io.Discard, r)
			return frame, size + rest, err
		case errors.Is(err, io.EOF):
			return buf, int64(len(buf)), nil
		case err != nil:
			return buf, 0, err
		}
	}
}
