// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
)

// Queue is one producer, and a client per reader. It implements
// synchronizer.Queue.
type Queue struct {
	Config
	watch     *watcher
	client    *kgo.Client // produces, and asks about topics and groups
	admin     *kadm.Client
	publisher *publisher

	ctx context.Context // ends with ErrClosed
	end context.CancelCauseFunc

	mu      sync.Mutex
	closed  bool
	calls   sync.WaitGroup // Publish; Add only under mu and not when closed
	readers map[closer]bool
}

type closer interface{ Close() error }

var _ synchronizer.Queue = (*Queue)(nil)

func newQueue(config Config, watch *watcher, client *kgo.Client) *Queue {
	q := &Queue{
		Config: config, watch: watch, client: client, admin: kadm.NewClient(client),
		readers: map[closer]bool{},
	}
	q.ctx, q.end = context.WithCancelCause(context.Background())
	q.publisher = newPublisher(&q.Config, client)
	return q
}

// join bounds ctx by the life of the queue; context.Cause of the result is
// ErrClosed when the queue ended it.
func (q *Queue) join(ctx context.Context) (context.Context, func()) {
	return joined(ctx, q.ctx)
}

// joined ends with either, with the cause of that one.
func joined(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	if other.Err() != nil { // AfterFunc runs on its own goroutine, later
		cancel(context.Cause(other))
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Publish implements synchronizer.Queue. While the broker is away it waits until
// ctx ends; what was handed over before may still be written then.
func (q *Queue) Publish(ctx context.Context, to synchronizer.Direction, records []synchronizer.Record) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return fmt.Errorf("publishing: %w", synchronizer.ErrClosed)
	}
	q.calls.Add(1)
	q.mu.Unlock()
	defer q.calls.Done()

	ctx, done := q.join(ctx)
	defer done()
	return q.publisher.publish(ctx, to, records)
}

// addReader keeps a reader for Close of the queue.
func (q *Queue) addReader(r closer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return synchronizer.ErrClosed
	}
	q.readers[r] = true
	return nil
}

func (q *Queue) removeReader(r closer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.readers, r)
}

// Close implements synchronizer.Queue: it waits until everything that was handed
// to Publish is confirmed, at most until ctx ends, and then ends everything.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	q.mu.Unlock()

	flushed := make(chan error, 1)
	flushing, cancel := context.WithCancel(ctx)
	go func() {
		q.calls.Wait()
		flushed <- q.client.Flush(flushing)
	}()
	var err error
	select {
	case err = <-flushed:
		cancel()
		q.end(synchronizer.ErrClosed)
	case <-ctx.Done():
		err = ctx.Err()
		cancel()
		q.end(synchronizer.ErrClosed) // ends the calls
		<-flushed
	}
	if err != nil {
		err = fmt.Errorf("flushing the queue: %w", err)
	}

	q.mu.Lock()
	var readers []closer
	for r := range q.readers {
		readers = append(readers, r)
	}
	q.mu.Unlock()
	var leaving sync.WaitGroup
	for _, r := range readers {
		leaving.Go(func() { _ = r.Close() })
	}
	leaving.Wait()
	q.client.Close()
	return err
}
