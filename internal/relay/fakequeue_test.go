// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"slices"
	"sync"

	"synchronizer"
)

// fakeQueue takes everything, or, while refusing, nothing: Publish then waits
// until its context ends, as with a broker that is away.
type fakeQueue struct {
	synchronizer.Queue
	tail chan []synchronizer.Record

	mu       sync.Mutex
	refusing bool
	again    chan struct{} // closed and replaced when refusing changes
	blocked  int
	records  []synchronizer.Record
}

func newFakeQueue() *fakeQueue {
	return &fakeQueue{tail: make(chan []synchronizer.Record, 10), again: make(chan struct{})}
}

func (q *fakeQueue) refuse(on bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refusing = on
	close(q.again)
	q.again = make(chan struct{})
}

// waiting is how many calls of Publish are blocked.
func (q *fakeQueue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.blocked
}

func (q *fakeQueue) published() []synchronizer.Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.records)
}

func (q *fakeQueue) Publish(ctx context.Context, _ synchronizer.Direction, records []synchronizer.Record) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.refusing {
		q.records = append(q.records, records...)
		return nil
	}
	q.blocked++
	defer func() { q.blocked-- }()
	for q.refusing {
		again := q.again
		q.mu.Unlock()
		select {
		case <-again:
		case <-ctx.Done():
		}
		q.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	q.records = append(q.records, records...)
	return nil
}

func (q *fakeQueue) Tail(context.Context) (synchronizer.Tail, error) { return fakeTail{q}, nil }

type fakeTail struct{ q *fakeQueue }

func (t fakeTail) Next(ctx context.Context) ([]synchronizer.Record, error) {
	select {
	case records := <-t.q.tail:
		return records, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (fakeTail) Close() error { return nil }
