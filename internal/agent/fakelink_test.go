// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"sync"

	"synchronizer"
)

// fakeLink is a link whose peer is a backend in the same process.
type fakeLink struct {
	up, down chan synchronizer.Message
	dead     chan struct{}
	served   sync.WaitGroup
	sending  func([]synchronizer.Message) // nil: nobody looks

	mu     sync.Mutex
	err    error
	closed int // the code of Close
}

var _ synchronizer.Link = (*fakeLink)(nil)

func (l *fakeLink) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.dead)
	}
}

func (l *fakeLink) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *fakeLink) Send(ctx context.Context, msgs ...synchronizer.Message) error {
	if l.sending != nil {
		l.sending(msgs)
	}
	for _, msg := range msgs {
		if err := l.failure(); err != nil {
			return err
		}
		select {
		case l.up <- msg:
		case <-l.dead:
			return l.failure()
		case <-ctx.Done():
			l.fail(synchronizer.ErrClosed)
			return errors.Join(ctx.Err(), synchronizer.ErrClosed)
		}
	}
	return nil
}

func (l *fakeLink) Receive(ctx context.Context) (synchronizer.Message, error) {
	select {
	case <-l.dead:
		return synchronizer.Message{}, l.failure()
	default:
	}
	select {
	case msg := <-l.down:
		return msg, nil
	case <-l.dead:
		return synchronizer.Message{}, l.failure()
	case <-ctx.Done():
		return synchronizer.Message{}, ctx.Err()
	}
}

func (l *fakeLink) Peer() synchronizer.Hello { return synchronizer.Hello{} }

// Close lets the backend read what was sent before it, as a network would.
func (l *fakeLink) Close(code int, _ string) error {
	l.mu.Lock()
	if l.closed == 0 {
		l.closed = code
	}
	l.mu.Unlock()
	l.fail(synchronizer.ErrClosed)
	l.served.Wait()
	return nil
}
