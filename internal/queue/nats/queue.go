// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"synchronizer"
)

// settings is what differs between the ways to reach a broker.
type settings struct {
	prefix     string // of subjects and names of streams
	partitions int    // of out
	maxPayload int    // bytes of a record, properties included
	ackWait    time.Duration
	outBytes   int64         // size of the stream out; the others are fractions of it
	outAge     time.Duration // of records in the stream out; 0: no limit
	replicas   int           // 0: as it is
	timing     timing        // of the members of groups
	alone      bool          // nobody else reads or writes the records
	// cannotReset lets tests behave as on a broker that cannot reset consumers.
	cannotReset bool
	logger      *slog.Logger
}

const (
	apiTimeout       = 30 * time.Second
	reconnectedPause = 20 * time.Millisecond // between two looks at a connection
)

// Queue is one connection to a broker. It implements synchronizer.Queue.
type Queue struct {
	settings
	// Two connections: large batches that are read must not hold up the
	// confirmations of what is written.
	write, read *natsgo.Conn
	js          jetstream.JetStream // on read
	publisher   *publisher
	trimmer     *trimmer
	release     func() error // ends what stands behind the connections

	ctx   context.Context // ends with ErrClosed
	end   context.CancelCauseFunc
	tasks sync.WaitGroup // goroutines of the queue

	mu      sync.Mutex
	closed  bool
	calls   sync.WaitGroup // Publish; Add only under mu and not when closed
	groups  map[string]bool
	readers map[reader]func() // the function closes it
}

// reader is a tail or a consumer.
type reader interface {
	// reconnected tells that the connection was interrupted: what was on its way
	// is lost.
	reconnected()
}

var _ synchronizer.Queue = (*Queue)(nil)

// newQueue makes the streams and starts the queue on two connections, which it
// owns from here on, as it does release, if there is no error.
func newQueue(ctx context.Context, set settings, write, read *natsgo.Conn, release func() error) (*Queue, error) {
	js, err := jetstream.New(read, jetstream.WithDefaultTimeout(apiTimeout))
	if err != nil {
		return nil, fmt.Errorf("using JetStream: %w", err)
	}
	if err := set.ensureStreams(ctx, js); err != nil {
		return nil, err
	}
	q := &Queue{
		settings: set, write: write, read: read, js: js, release: release,
		groups: map[string]bool{}, readers: map[reader]func(){},
	}
	q.ctx, q.end = context.WithCancelCause(context.Background())
	if q.publisher, err = newPublisher(write, set); err != nil {
		return nil, err
	}
	q.trimmer = &trimmer{js: js, settings: set, wake: make(chan struct{}, 1), full: make(chan struct{}, 1)}
	q.tasks.Go(func() { q.trimmer.run(q.ctx) })
	return q, nil
}

func (s *settings) streamName(d synchronizer.Direction) string { return s.prefix + "-" + d.String() }

// subject is where records of a key go; hashed tells that the key cannot be read
// back from it.
func (s *settings) subject(d synchronizer.Direction, key string) (subject string, hashed bool) {
	t := token(key)
	hashed = len(t) > 1 && t[:2] == "=="
	if d == synchronizer.Out {
		return s.prefix + "." + d.String() + "." + strconv.Itoa(partition(key, s.partitions)) + "." + t, hashed
	}
	return s.prefix + "." + d.String() + "." + t, hashed
}

// join bounds ctx by the life of the queue; context.Cause of the result is
// ErrClosed when the queue ended it.
func (q *Queue) join(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(q.ctx, func() { cancel(context.Cause(q.ctx)) })
	if q.ctx.Err() != nil { // AfterFunc runs on its own goroutine, later
		cancel(context.Cause(q.ctx))
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// connected waits while the connection for reading is interrupted.
func (q *Queue) connected(ctx context.Context) error {
	for ctx.Err() == nil && q.read.IsReconnecting() {
		select {
		case <-ctx.Done():
		case <-time.After(reconnectedPause):
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Publish implements synchronizer.Queue. While the stream is full, or the broker
// does not answer, it waits and tries again until ctx ends.
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
	return q.publisher.publish(ctx, to, records, q.trouble)
}

// trouble is what Publish does about a refusal before it tries again.
func (q *Queue) trouble(ctx context.Context, err error) {
	switch {
	case isFull(err):
		q.trimmer.hurry()
	case errors.Is(err, errNoStream):
		if err := q.ensureStreams(ctx, q.js); err != nil && ctx.Err() == nil {
			q.logger.Warn("streams of the queue are away", "error", err)
		}
	}
}

// addReader keeps a reader for Close of the queue; the result closes it and takes
// it out, once.
func (q *Queue) addReader(r reader, leave func()) func() {
	remove := sync.OnceFunc(func() {
		leave()
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.readers, r)
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	q.readers[r] = remove
	return remove
}

// reconnected tells all readers.
func (q *Queue) reconnected() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for r := range q.readers {
		r.reconnected()
	}
}

// Close implements synchronizer.Queue: it waits for running calls of Publish
// until ctx ends, then ends everything.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	q.mu.Unlock()

	flushed := make(chan struct{})
	go func() {
		q.calls.Wait()
		close(flushed)
	}()
	var err error
	select {
	case <-flushed:
	case <-ctx.Done():
		err = fmt.Errorf("flushing the queue: %w", ctx.Err())
	}
	q.end(synchronizer.ErrClosed)
	<-flushed
	q.tasks.Wait()

	q.mu.Lock()
	readers := make([]func(), 0, len(q.readers))
	for _, leave := range q.readers {
		readers = append(readers, leave)
	}
	q.mu.Unlock()
	for _, leave := range readers {
		leave()
	}
	q.publisher.close()
	q.write.Close()
	q.read.Close()
	return errors.Join(err, q.release())
}
