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
	outBytes   int64 // size of the stream out; the others are fractions of it
	logger     *slog.Logger
}

const (
	keepIn         = 10 * time.Minute
	keepDeadLetter = 30 * 24 * time.Hour
	apiTimeout     = 30 * time.Second
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
	readers map[*puller]func()
}

var _ synchronizer.Queue = (*Queue)(nil)

// newQueue makes the streams and starts the queue on two connections, which it
// owns from here on, as it does release, if there is no error.
func newQueue(ctx context.Context, set settings, write, read *natsgo.Conn, release func() error) (*Queue, error) {
	js, err := jetstream.New(read, jetstream.WithDefaultTimeout(apiTimeout))
	if err != nil {
		return nil, fmt.Errorf("using JetStream: %w", err)
	}
	for _, d := range []synchronizer.Direction{synchronizer.Out, synchronizer.In, synchronizer.DeadLetter} {
		if _, err := js.CreateOrUpdateStream(ctx, set.stream(d)); err != nil {
			return nil, fmt.Errorf("creating stream %s: %w", set.streamName(d), err)
		}
	}
	q := &Queue{
		settings: set, write: write, read: read, js: js, release: release,
		groups: map[string]bool{}, readers: map[*puller]func(){},
	}
	q.ctx, q.end = context.WithCancelCause(context.Background())
	if q.publisher, err = newPublisher(write, set); err != nil {
		return nil, err
	}
	q.trimmer = &trimmer{js: js, stream: set.streamName(synchronizer.Out), logger: set.logger, wake: make(chan struct{}, 1)}
	q.tasks.Go(func() { q.trimmer.run(q.ctx) })
	return q, nil
}

func (s *settings) streamName(d synchronizer.Direction) string { return s.prefix + "-" + d.String() }

func (s *settings) stream(d synchronizer.Direction) jetstream.StreamConfig {
	config := jetstream.StreamConfig{
		Name:     s.streamName(d),
		Subjects: []string{s.prefix + "." + d.String() + ".>"},
		Storage:  jetstream.FileStorage,
		// Acknowledged records of out are removed by the trimmer: the broker's own
		// work queues refuse AckAll, which costs a third less.
		Retention: jetstream.LimitsPolicy,
		Discard:   jetstream.DiscardOld,
		// Nothing is de-duplicated, so remember as little as possible.
		Duplicates: 100 * time.Millisecond,
		MaxMsgs:    -1,
		MaxMsgSize: -1,
		Replicas:   1,
	}
	switch d {
	case synchronizer.Out:
		config.MaxBytes, config.Discard = s.outBytes, jetstream.DiscardNew
	case synchronizer.In:
		config.MaxBytes, config.MaxAge = s.outBytes/4, keepIn
	default:
		config.MaxBytes, config.MaxAge = s.outBytes/8, keepDeadLetter
	}
	return config
}

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
	return q.publisher.publish(ctx, to, records, q.trimmer.poke)
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
