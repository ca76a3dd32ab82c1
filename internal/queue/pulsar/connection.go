// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"errors"
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

var errLost = errors.New("broker has closed it, or does not know it")

// watched notices that a consumer or reader of the library has lost its connection:
// the library then asks for a backoff policy, before anything else. We do not let
// it reconnect by itself. What it has fetched and not handed out yet would be lost
// for a reader (it resumes behind messages that it drops), and after some errors it
// stays silent for ever.
type watched struct {
	seen   atomic.Bool
	ctx    context.Context // ends when the connection is lost
	cancel context.CancelCauseFunc
	idle   chan struct{} // closed when nobody reads any more
	asking atomic.Bool   // a question of ours is on its way
	expect atomic.Int64  // policies that the library still asks for because of it

	partitions int // of the topic, for a consumer
}

// idlePatience only guards against a library that waits for its own goroutine.
const idlePatience = time.Second

func newWatched(ctx context.Context) *watched {
	w := &watched{idle: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	return w
}

func (w *watched) lost() { w.cancel(errLost) }

// giveUp is lost for one that the library has not noticed: nothing of it counts any
// more.
func (w *watched) giveUp() {
	w.seen.Store(true)
	w.lost()
}

// policy is for the options of the library. It holds the library back until nobody
// reads: a reader's own position is not safe from a reconnect.
func (w *watched) policy() backoff.Policy {
	asking := w.asking.Load()
	if asking && w.expect.Add(-1) >= 0 {
		return question{w}
	}
	if !w.seen.Swap(true) {
		w.lost()
		patience := time.NewTimer(idlePatience)
		defer patience.Stop()
		select {
		case <-w.idle:
		case <-patience.C:
		}
	}
	if asking {
		return question{w}
	}
	return newBackOff()
}

// leave says that nobody reads any more.
func (w *watched) leave() {
	w.lost()
	close(w.idle)
}

// question is the policy for a question of ours: the library asks it how long to wait
// when the broker refuses an answer.
type question struct{ w *watched }

// Next implements backoff.Policy. The library gives up after operationTimeout, and is
// not to ask again before: it never answers one who asks what is just being closed.
func (q question) Next() time.Duration {
	q.w.giveUp()
	return 2 * operationTimeout
}

// IsMaxBackoffReached implements backoff.Policy.
func (question) IsMaxBackoffReached() bool { return true }

// Reset implements backoff.Policy.
func (question) Reset() {}

// open makes a reader or consumer, and asks the broker something that only one can
// ask that it knows. The library begins to listen to what the broker says about one
// after it was told that it exists. If the broker hands the topic over in between, it
// never hears of that, and waits for ever for records that nobody will send.
func open[T interface{ Close() }](ctx context.Context, q *Queue, w *watched, create func() (T, error), ask func(T) error) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.ctx, func() { cancel(context.Cause(w.ctx)) })()
	made, err := within(ctx, q, func() (T, error) {
		var none T
		made, err := create()
		if err != nil {
			return none, err
		}
		if err = context.Cause(w.ctx); err == nil { // or it might be closed meanwhile, and never answer
			w.expect.Store(int64(w.partitions))
			w.asking.Store(true)
			err = ask(made)
			w.asking.Store(false)
		}
		if err != nil {
			made.Close()
			return none, err
		}
		return made, nil
	}, T.Close)
	if err != nil {
		w.leave()
	}
	return made, err
}

// openTries is how often a topic may be handed over while somebody begins to read it.
const openTries = 5

// insist is for what somebody waits for who would give up at once.
func insist[T any](ctx context.Context, call func() (T, error)) (T, error) {
	pause := pauses{backOff{firstBackOff}}
	for try := 1; ; try++ {
		made, err := call()
		if try == openTries || !errors.Is(err, errLost) || !pause.wait(ctx) {
			return made, err
		}
	}
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
