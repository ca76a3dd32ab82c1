// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/queue"
	"synchronizer/internal/telemetry"
)

// endingQueue gives ten records to each reader and then ends by itself, as a
// connection does that the library has given up.
type endingQueue struct{}

func (endingQueue) Publish(context.Context, synchronizer.Direction, []synchronizer.Record) error {
	return nil
}
func (endingQueue) Close(context.Context) error { return nil }
func (endingQueue) Tail(context.Context) (synchronizer.Tail, error) {
	return &endingTail{}, nil
}

func (endingQueue) Consume(context.Context, string) (synchronizer.Consumer, error) {
	return &endingConsumer{}, nil
}

type endingTail struct{ records int }

func (t *endingTail) Next(context.Context) ([]synchronizer.Record, error) {
	if t.records++; t.records > 10 {
		return nil, fmt.Errorf("reading records: %w", synchronizer.ErrClosed)
	}
	return []synchronizer.Record{{Key: "account/cluster", Payload: []byte("no record of ours")}}, nil
}
func (*endingTail) Close() error { return nil }

type endingConsumer struct{ endingTail }

func (c *endingConsumer) Next(ctx context.Context, _, _ int) (synchronizer.Batch, error) {
	records, err := c.endingTail.Next(ctx)
	return synchronizer.Batch{Records: records, Ack: func(context.Context) error { return nil }}, err
}

// toldQueue can be asked in addition, and says what a test tells it.
type toldQueue struct {
	endingQueue
	mu  sync.Mutex
	err error
}

var errSilent = errors.New("silent") // then there is no answer

func (q *toldQueue) say(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = err
}

func (q *toldQueue) Reachable(ctx context.Context) error {
	q.mu.Lock()
	err := q.err
	q.mu.Unlock()
	if errors.Is(err, errSilent) {
		<-ctx.Done()
		err = fmt.Errorf("asking broker.example: %w", ctx.Err())
	}
	return err
}

// TestNotReadyWhileTheBrokerIsAway: within two times askBroker after it went, and
// ready again by itself; the log tells each once.
func TestNotReadyWhileTheBrokerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		q := &toldQueue{}
		b := &Backend{process: app.NewProcess(&log), queue: openedQueue{Queue: q}}
		require.ErrorIs(t, b.Ready(), errNotAsked)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.watchBroker(ctx) }()
		after := func(d time.Duration) error {
			<-time.After(d)
			synctest.Wait()
			return b.Ready()
		}
		require.NoError(t, after(0), "it asks at once")
		for _, away := range []struct {
			err  error
			want string
		}{
			{fmt.Errorf("asking broker.example: %w", synchronizer.ErrDisconnected), "disconnected"},
			{errSilent, "asking broker.example: context deadline exceeded"},
		} {
			log.Reset()
			q.say(away.err)
			require.ErrorContains(t, after(2*askBroker), away.want)
			require.ErrorContains(t, after(time.Minute), away.want)
			require.Equal(t, 1, strings.Count(log.String(), "\n"), "%s", &log)
			require.Contains(t, log.String(), away.want)
			q.say(nil)
			require.NoError(t, after(2*askBroker))
			require.NoError(t, after(time.Minute))
			require.Equal(t, 2, strings.Count(log.String(), "\n"), "%s", &log)
			require.Contains(t, log.String(), "again")
		}
		cancel()
		require.NoError(t, <-done)
	})
}

// TestB088QueueSaysThatItHasEnded: the process ends, although its readers only wait.
func TestB088QueueSaysThatItHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &toldQueue{}
		b := &Backend{process: app.NewProcess(t.Output()), queue: openedQueue{Queue: q}}
		done := make(chan error, 1)
		go func() { done <- b.watchBroker(t.Context()) }()
		<-time.After(time.Minute)
		synctest.Wait()
		require.NoError(t, b.Ready())
		q.say(fmt.Errorf("connection to broker.example has ended for good: %w", synchronizer.ErrClosed))
		<-time.After(2 * askBroker)
		synctest.Wait()
		require.Len(t, done, 1)
		require.ErrorContains(t, <-done, "the queue has ended: connection to broker.example has ended for good")
		require.ErrorIs(t, b.Ready(), synchronizer.ErrClosed)
	})
}

// TestB088ReaderEndsForGood: a process whose queue has ended, although nobody closed
// it, ends with an error, instead of going on without its reader.
func TestB088ReaderEndsForGood(t *testing.T) {
	told := &toldQueue{err: fmt.Errorf("connection to broker.example has ended for good: %w", synchronizer.ErrClosed)}
	for name, test := range map[string]struct {
		queue synchronizer.Queue
		wire  func(b *Backend) error
		want  string
	}{
		"server":                    {endingQueue{}, (*Backend).wireRelay, "reading records: closed"},
		"ingester":                  {endingQueue{}, (*Backend).wireIngester, "ingester has ended by itself"},
		"server that can be told":   {told, (*Backend).wireRelay, "closed"},
		"ingester that can be told": {told, (*Backend).wireIngester, "connection to broker.example has ended for good"},
		"both":                      {endingQueue{}, func(b *Backend) error { return errors.Join(b.wireRelay(), b.wireIngester()) }, "closed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := configuration(t, t.TempDir())
			b := &Backend{process: app.NewProcess(t.Output()), config: c, queue: openedQueue{Queue: test.queue, name: "fake", encoding: queue.Compact}}
			var err error
			b.clients, err = telemetry.Listen(t.Context(), "127.0.0.1:0", "")
			require.NoError(t, err)
			b.health, err = telemetry.Listen(t.Context(), "127.0.0.1:0", "")
			require.NoError(t, err)
			b.store, err = openDatabase(t.Context(), c)
			require.NoError(t, err)
			require.NoError(t, test.wire(b))
			done := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			go func() { done <- b.Run(ctx) }()
			err = <-done
			require.NoError(t, ctx.Err(), "it ends by itself")
			require.ErrorIs(t, err, synchronizer.ErrClosed)
			require.ErrorContains(t, err, test.want)
			require.Equal(t, app.ExitError, app.ExitCode(err))
		})
	}
}
