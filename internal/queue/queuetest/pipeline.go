// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/ingest"
	"synchronizer/internal/queue"
	"synchronizer/internal/store/sqlite"
)

var (
	pipelineCluster = synchronizer.ClusterID{Account: "account", Cluster: "pipeline"}
	pipelineKind    = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}
)

// pipeline is an ingester between the queue and a database that fails.
type pipeline struct {
	*watched
	store *unreliable
	start func() *ingest.Ingester
	stop  func() // the running ingester
}

// newPipeline opens the queue for one ingester after the other.
func newPipeline(t *testing.T, s *suite) *pipeline {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "pipeline.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	p := &pipeline{watched: &watched{}, store: &unreliable{DB: db}, stop: func() {}}
	p.start = func() *ingest.Ingester {
		q := s.open(t)
		p.Queue = q
		ingester := ingest.New(ingest.Options{
			Queue: p.watched, Store: p.store, Encoder: queue.Encoder{Encoding: queue.Compact}, Group: group,
			BatchRecords: 100, BatchBytes: 1 << 20, MaxAttempts: 3, Now: p.store.now,
			Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
			Drop: func(synchronizer.DropReason, string) {},
		})
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- ingester.Run(ctx) }()
		p.stop = sync.OnceFunc(func() {
			cancel()
			require.NoError(t, <-done)
			closeQueue(t, q)
		})
		return ingester
	}
	t.Cleanup(func() { p.stop() }) // the last one
	return p
}

// objects are records of servers about deployments.
func objects(t *testing.T, from int, names ...string) []synchronizer.Record {
	t.Helper()
	encoder := queue.Encoder{Encoding: queue.Compact, Producer: queue.Server}
	var records []synchronizer.Record
	for i, name := range names {
		body := fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":"1"}}`, name, "u-"+name)
		sum, err := checksum.V1(body)
		require.NoError(t, err)
		r, err := encoder.Encode(&synchronizer.Message{
			ClusterID: pipelineCluster, Event: synchronizer.EventPut, Kind: pipelineKind, Namespace: "default", Name: name,
			Body: body, Checksum: sum, MsgID: "m-" + name, Depth: 2,
			Stamp: synchronizer.Stamp{Source: "source", Seq: uint64(from + i)},
		}, queue.Extra{Link: "v1"})
		require.NoError(t, err)
		records = append(records, r)
	}
	return records
}

func (p *pipeline) stored(t *testing.T, name string) bool {
	t.Helper()
	_, err := p.store.Object(t.Context(), synchronizer.ObjectKey{ClusterID: pipelineCluster, Kind: pipelineKind, Namespace: "default", Name: name})
	if errors.Is(err, synchronizer.ErrNotFound) {
		return false
	}
	require.NoError(t, err)
	return true
}

// testAfterCommit: a process that ends before its transaction was committed has
// acknowledged nothing.
func testAfterCommit(t *testing.T, s *suite) {
	p := newPipeline(t, s)
	p.store.away(10 * time.Minute)
	ingester := p.start()
	s.publish(t, p.Queue, synchronizer.Out, objects(t, 1, "a", "b", "c")...)
	require.Eventually(t, func() bool { return p.store.refusals() > 1 }, s.Patience, tick)
	require.Error(t, ingester.Ready())
	require.Zero(t, p.acknowledged())
	p.stop()
	require.False(t, p.stored(t, "a"))

	p.store.away(0)
	p.start()
	require.Eventually(t, func() bool { return p.stored(t, "a") && p.stored(t, "b") && p.stored(t, "c") }, s.Patience, tick)
	require.Eventually(t, func() bool { return p.acknowledged() == 3 }, s.Patience, tick)
	p.stop()

	// And what was committed does not come again.
	q := s.start(t)
	s.publish(t, q, synchronizer.Out, numbered("account/last", 0, 1)...)
	c := s.consume(t, q)
	require.Equal(t, "account/last", s.read(t, c, 1)[0].Key)
	quiet(t, nextOf(c))
}

// testPoisonAndOutage: a record that can never be stored is set aside, once and
// alone. A database that is away for ten minutes (each attempt takes more than
// one of them) sets nothing aside, and costs nothing.
func testPoisonAndOutage(t *testing.T, s *suite) {
	p := newPipeline(t, s)
	ingester := p.start()
	malformed := synchronizer.Record{Key: pipelineCluster.String(), Payload: []byte("{"), Properties: []synchronizer.Property{
		{Name: "event", Value: "PutObject"}, {Name: "account", Value: pipelineCluster.Account}, {Name: "cluster", Value: pipelineCluster.Cluster},
	}}
	s.publish(t, p.Queue, synchronizer.Out, objects(t, 1, "before")...)
	s.publish(t, p.Queue, synchronizer.Out, append(objects(t, 2, "poison"), malformed)...)
	s.publish(t, p.Queue, synchronizer.Out, objects(t, 3, "after")...)
	require.Eventually(t, func() bool { return p.acknowledged() == 4 }, s.Patience, tick)
	require.True(t, p.stored(t, "before"))
	require.True(t, p.stored(t, "after"))
	dead := p.deadLetters()
	require.Len(t, dead, 2)
	for _, r := range dead {
		require.NotEmpty(t, r.Property("x-dead-letter-reason"))
	}

	p.store.away(10 * time.Minute)
	before := p.store.now()
	s.publish(t, p.Queue, synchronizer.Out, objects(t, 4, "during-1", "during-2", "during-3")...)
	require.Eventually(t, func() bool { return p.store.refusals() > 1 }, s.Patience, tick)
	require.Error(t, ingester.Ready())
	require.Equal(t, 4, p.acknowledged(), "nothing is acknowledged")
	require.Eventually(t, func() bool { return p.acknowledged() == 7 }, 2*s.Patience, tick)
	require.GreaterOrEqual(t, p.store.now().Sub(before), 10*time.Minute)
	for _, name := range []string{"during-1", "during-2", "during-3"} {
		require.True(t, p.stored(t, name), name)
	}
	require.Len(t, p.deadLetters(), 2, "an outage is no fault of a record")
}

// unreliable is a database that is away at times, and refuses objects called
// poison. On its clock each refused attempt takes more than a minute.
type unreliable struct {
	*sqlite.DB
	mu      sync.Mutex
	passed  time.Duration
	until   time.Duration
	refused int
}

func (u *unreliable) now() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return time.Now().Add(u.passed)
}

// away begins an outage that takes so long.
func (u *unreliable) away(long time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.until, u.refused = u.passed+long, 0
}

func (u *unreliable) refusals() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.refused
}

// Update implements synchronizer.Store.
func (u *unreliable) Update(ctx context.Context, fn func(synchronizer.Tx) error) error {
	u.mu.Lock()
	if u.passed < u.until {
		u.passed += 75 * time.Second
		u.refused++
		u.mu.Unlock()
		return errors.New("database is away")
	}
	u.mu.Unlock()
	return u.DB.Update(ctx, func(tx synchronizer.Tx) error { return fn(refusing{tx}) })
}

type refusing struct{ synchronizer.Tx }

func (r refusing) Write(ctx context.Context, rows []synchronizer.Row) error {
	for i := range rows {
		if strings.HasPrefix(rows[i].Key.Name, "poison") && len(rows[i].Body) > 0 {
			return fmt.Errorf("%w: the database refuses this row", synchronizer.ErrInvalid)
		}
	}
	return r.Tx.Write(ctx, rows)
}

// watched is the queue of an ingester; it sees what is acknowledged and set aside.
type watched struct {
	synchronizer.Queue
	mu    sync.Mutex
	acked int
	dead  []synchronizer.Record
}

func (w *watched) acknowledged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked
}

func (w *watched) deadLetters() []synchronizer.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// Publish implements synchronizer.Queue.
func (w *watched) Publish(ctx context.Context, to synchronizer.Direction, records []synchronizer.Record) error {
	err := w.Queue.Publish(ctx, to, records)
	if err == nil && to == synchronizer.DeadLetter {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dead = append(w.dead, records...)
	}
	return err
}

// Consume implements synchronizer.Queue.
func (w *watched) Consume(ctx context.Context, group string) (synchronizer.Consumer, error) {
	c, err := w.Queue.Consume(ctx, group)
	return watchedConsumer{c, w, &ledger{}}, err
}

// ledger holds the batches that are not acknowledged, by their number.
type ledger struct {
	returned int // records, of all batches
	acked    int
}

type watchedConsumer struct {
	synchronizer.Consumer
	w      *watched
	ledger *ledger
}

// Next implements synchronizer.Consumer.
func (c watchedConsumer) Next(ctx context.Context, most, maxBytes int) (synchronizer.Batch, error) {
	b, err := c.Consumer.Next(ctx, most, maxBytes)
	if err != nil {
		return b, err
	}
	c.w.mu.Lock()
	c.ledger.returned += len(b.Records)
	covers := c.ledger.returned
	c.w.mu.Unlock()
	ack := b.Ack
	b.Ack = func(ctx context.Context) error {
		if err := ack(ctx); err != nil {
			return err
		}
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		if covers > c.ledger.acked { // an acknowledgement covers what came before
			c.w.acked += covers - c.ledger.acked
			c.ledger.acked = covers
		}
		return nil
	}
	return b, nil
}
