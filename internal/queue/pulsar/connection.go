// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar/backoff"
)

const (
	firstBackOff   = 100 * time.Millisecond
	longestBackOff = 5 * time.Second
)

const (
	// chunkLife is when the library gives up a record of which chunks are missing. It
	// acknowledges those that it has, so this must never happen to a record that is
	// still on its way. (A goroutine of the library lives as long for each record.)
	chunkLife = time.Hour
	// stalledAfter is how long a reader may wait for its caller. Chunks may wait with
	// it, so it starts anew before chunkLife is over.
	stalledAfter = chunkLife / 3
)

// backOff is how long the library waits between attempts to reconnect.
type backOff struct{ next time.Duration }

func newBackOff() backoff.Policy { return &backOff{firstBackOff} }

// Next implements backoff.Policy.
func (b *backOff) Next() time.Duration {
	pause := b.next
	b.next = min(2*b.next, longestBackOff)
	return pause
}

// IsMaxBackoffReached implements backoff.Policy.
func (b *backOff) IsMaxBackoffReached() bool { return b.next >= longestBackOff }

// Reset implements backoff.Policy.
func (b *backOff) Reset() { b.next = firstBackOff }

// watched notices that a consumer or reader of the library has lost its connection:
// the library then asks for a backoff policy, before anything else. We do not let
// it reconnect by itself. What it has fetched and not handed out yet would be lost
// for a reader (it resumes behind messages that it drops), and after some errors it
// stays silent for ever.
type watched struct {
	armed atomic.Bool
	seen  atomic.Bool
	ctx   context.Context // ends when the connection is lost
	lost  context.CancelFunc
	idle  chan struct{} // closed when nobody reads any more

	partitions int // of the topic, for a consumer
}

// idlePatience only guards against a library that waits for its own goroutine.
const idlePatience = time.Second

func newWatched(ctx context.Context) *watched {
	w := &watched{idle: make(chan struct{})}
	w.ctx, w.lost = context.WithCancel(ctx)
	return w
}

// policy is for the options of the library. It holds the library back until nobody
// reads: a reader's own position is not safe from a reconnect.
func (w *watched) policy() backoff.Policy {
	if w.armed.Load() && !w.seen.Swap(true) {
		w.lost()
		patience := time.NewTimer(idlePatience)
		defer patience.Stop()
		select {
		case <-w.idle:
		case <-patience.C:
		}
	}
	return newBackOff()
}

// leave says that nobody reads any more.
func (w *watched) leave() {
	w.lost()
	close(w.idle)
}

// within calls a function that cannot be cancelled. When ctx ends first, its
// result is discarded later.
func within[T any](ctx context.Context, q *Queue, call func() (T, error), discard func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	results := make(chan result)
	gone := make(chan struct{})
	q.tasks.Go(func() {
		value, err := call()
		select {
		case results <- result{value, err}:
		case <-gone:
			if err == nil {
				discard(value)
			}
		}
	})
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		close(gone)
		return none, context.Cause(ctx)
	}
}

// pauses are those between attempts of ours, from first on.
type pauses struct{ backOff }

// wait returns false when ctx has ended.
func (p *pauses) wait(ctx context.Context) bool {
	t := time.NewTimer(p.Next())
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
