// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"synchronizer"
)

// askBroker is how often the broker is asked, and how long it may take to answer:
// readiness is at most twice as old.
const askBroker = 5 * time.Second

var errNotAsked = errors.New("the queue has not answered yet")

// answer is what a part that is asked again and again last said. The zero value has
// not asked.
type answer struct {
	mu    sync.Mutex
	asked bool
	err   error
}

// ready is nil if the last answer was right, and notAsked before the first.
func (a *answer) ready(notAsked error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.asked {
		return notAsked
	}
	return a.err
}

// answered keeps an answer and tells whether it is another than the last one was;
// the first one is expected to be right.
func (a *answer) answered(err error) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed = (a.err == nil) != (err == nil)
	a.asked, a.err = true, err
	return changed
}

// watchBroker keeps Ready true of the broker until ctx ends. A queue that has ended
// for good ends the process: nothing can be taken or stored any more, and a new
// process connects anew.
func (b *Backend) watchBroker(ctx context.Context) error {
	q, ok := b.queue.Queue.(synchronizer.Reachable)
	if !ok {
		b.broker.answered(nil) // it cannot be asked
		return nil
	}
	tick := time.NewTicker(askBroker)
	defer tick.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, askBroker)
		err := q.Reachable(limited)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		changed := b.broker.answered(err)
		switch {
		case errors.Is(err, synchronizer.ErrClosed):
			return fmt.Errorf("the queue has ended: %w", err)
		case changed && err != nil:
			b.process.Logger.Warn("queue cannot be reached: not ready until it can", "error", err)
		case changed:
			b.process.Logger.Info("queue can be reached again")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// untilEnd runs a part of the process that must not end before ctx does. Some parts
// take the end of the queue for an order to end; without them the process would
// seem to work.
func (b *Backend) untilEnd(ctx context.Context, name string, part func(context.Context) error) error {
	if err := part(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	err := synchronizer.ErrClosed
	if q, ok := b.queue.Queue.(synchronizer.Reachable); ok {
		limited, cancel := context.WithTimeout(ctx, askBroker)
		defer cancel()
		if why := q.Reachable(limited); why != nil {
			err = why
		}
	}
	b.broker.answered(err)
	return fmt.Errorf("%s has ended by itself, since the queue has: %w", name, err)
}
