// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"synchronizer"
)

// session is one connection, seen from the stock peer.
type session struct {
	t  testing.TB
	ws *websocket.Conn

	done chan struct{} // closed when reading has ended

	mu       sync.Mutex
	received []Frame
	changed  chan struct{} // closed and replaced at every frame
	over     bool          // the test is over: nothing may be reported any more
}

func newSession(t testing.TB) *session {
	s := &session{t: t, done: make(chan struct{}), changed: make(chan struct{})}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.over = true
	})
	return s
}

// onPing fails the test: a WebSocket ping frame corrupts the write side of a
// client in the field.
func (s *session) onPing(context.Context, []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.t.Error("the peer sent a WebSocket ping frame to a link v1 peer")
	}
	return false
}

// read hands every frame to handle, until the connection ends.
func (s *session) read(gate <-chan struct{}, handle func(Frame)) {
	defer close(s.done)
	s.ws.SetReadLimit(-1)
	for {
		<-gate
		typ, raw, err := s.ws.Read(context.Background())
		if err != nil {
			return
		}
		if typ != websocket.MessageBinary {
			continue // text frames are ignored (23)
		}
		f, ok := parse(raw)
		s.mu.Lock()
		s.received = append(s.received, f)
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if ok && handle != nil {
			handle(f)
		}
	}
}

// Send puts one binary frame on the wire as it is.
func (s *session) Send(frame []byte) error {
	return s.ws.Write(context.Background(), websocket.MessageBinary, frame)
}

// Received is every frame that came so far, also those that are none.
func (s *session) Received() []Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Frame(nil), s.received...)
}

// Wait waits up to a minute for the first frame, now or later, that is wanted.
func (s *session) Wait(want func(*Frame) bool) Frame {
	s.t.Helper()
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	for seen := 0; ; {
		s.mu.Lock()
		frames, changed := s.received, s.changed
		s.mu.Unlock()
		for ; seen < len(frames); seen++ {
			if want(&frames[seen]) {
				return frames[seen]
			}
		}
		select {
		case <-changed:
		case <-timeout.C:
			require.FailNow(s.t, "the frame did not come", "of %d frames none is it", len(frames))
		}
	}
}

// WaitFor is Wait for an event about an object.
func (s *session) WaitFor(event int, kind synchronizer.Kind, namespace, name string) Frame {
	s.t.Helper()
	return s.Wait(func(f *Frame) bool { return f.Is(event, kind, namespace, name) })
}

// Done is closed when the connection has ended.
func (s *session) Done() <-chan struct{} { return s.done }

// Close says goodbye, waits until nothing runs any more.
func (s *session) Close() {
	_ = s.ws.Close(websocket.StatusNormalClosure, "") // the peer may be gone
	<-s.done
}
