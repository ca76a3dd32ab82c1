// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/ingest"
	"synchronizer/internal/queue"
)

// waitingQueue is one on which nothing happens, and that can be told to take its time
// with subscriptions.
type waitingQueue struct {
	toldQueue
	subscribe chan struct{} // closed: Tail and Consume return
}

func (q *waitingQueue) join(ctx context.Context) error {
	select {
	case <-q.subscribe:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *waitingQueue) Tail(ctx context.Context) (synchronizer.Tail, error) {
	return waitingTail{}, q.join(ctx)
}

func (q *waitingQueue) Consume(ctx context.Context, _ string) (synchronizer.Consumer, error) {
	return waitingConsumer{}, q.join(ctx)
}

type waitingTail struct{}

func (waitingTail) Next(ctx context.Context) ([]synchronizer.Record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
func (waitingTail) Close() error { return nil }

type waitingConsumer struct{ waitingTail }

func (waitingConsumer) Next(ctx context.Context, _, _ int) (synchronizer.Batch, error) {
	<-ctx.Done()
	return synchronizer.Batch{}, ctx.Err()
}

// toldStore is a database that says what a test tells it. What else it could do is
// not asked for while nothing happens.
type toldStore struct {
	database
	mu  sync.Mutex
	err error
}

func (s *toldStore) say(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *toldStore) Update(ctx context.Context, _ func(synchronizer.Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// TestReadyTellsTheTruth: what makes each kind of process not ready, for how long, and
// what does not concern it.
func TestReadyTellsTheTruth(t *testing.T) {
	const (
		probed = 15 * time.Second // longer than the ingester waits to ask an idle database
		soon   = 2 * askBroker
	)
	for name, kind := range map[string]struct {
		relay, ingester, store bool
		unsubscribed           string // what is said before there is a subscription
	}{
		"server alone":                    {relay: true, unsubscribed: "not yet subscribed to the queue"},
		"server with keys or API":         {relay: true, store: true, unsubscribed: "not yet subscribed to the queue"},
		"server that ingests, and up":     {relay: true, ingester: true, store: true, unsubscribed: "not yet subscribed to the queue"},
		"ingester as a process by itself": {ingester: true, store: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				off := false
				c := &config.Config{}
				c.Ingester.Enabled = &off
				c.Backend.AllowAnonymous = true
				if kind.store {
					c.Store.Postgres.URL = "postgres://db.example/x"
				}
				q := &waitingQueue{subscribe: make(chan struct{})}
				db := &toldStore{}
				b := &Backend{process: app.NewProcess(t.Output()), config: c, queue: openedQueue{Queue: q, name: "fake", encoding: queue.Compact}, store: db}
				var parts []func(context.Context) error
				if kind.relay {
					require.NoError(t, b.wireRelay())
					parts = append(parts, func(ctx context.Context) error { return b.untilEnd(ctx, "relay", b.relay.Run) })
				}
				if kind.ingester {
					b.ingester = ingest.New(ingest.Options{
						Queue: q, Store: db, Encoder: queue.Encoder{Encoding: queue.Compact}, Group: "g", BatchRecords: 1, BatchBytes: 1,
						Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Drop: func(synchronizer.DropReason, string) {},
					})
					parts = append(parts, func(ctx context.Context) error { return b.untilEnd(ctx, "ingester", b.ingester.Run) })
				}
				parts = append(parts, b.watchBroker, b.watchStore)
				red := func(want string) {
					t.Helper()
					synctest.Wait()
					require.ErrorContains(t, b.Ready(), want)
				}
				green := func() {
					t.Helper()
					synctest.Wait()
					require.NoError(t, b.Ready())
				}
				red("the queue has not answered yet")

				ctx, terminate := context.WithCancel(t.Context())
				flushed := make(chan struct{})
				done := make(chan error, 1)
				go func() {
					done <- b.process.Run(ctx, parts, nil, func() error {
						<-flushed
						return nil
					})
				}()
				if kind.unsubscribed != "" {
					<-time.After(time.Minute)
					red(kind.unsubscribed)
				}
				close(q.subscribe)
				<-time.After(time.Minute)
				green()

				q.say(fmt.Errorf("asking broker.example: %w", synchronizer.ErrDisconnected))
				<-time.After(soon)
				red("asking broker.example")
				q.say(nil)
				<-time.After(soon)
				green()

				db.say(fmt.Errorf("database of example: %w", synchronizer.ErrDisconnected))
				<-time.After(probed)
				if kind.store {
					red("database of example")
				} else {
					green()
				}
				db.say(nil)
				<-time.After(time.Minute)
				green()

				terminate()
				red("shutting down") // at once, and until the end
				<-time.After(time.Minute)
				red("shutting down")
				close(flushed)
				require.NoError(t, <-done)
			})
		})
	}
}
