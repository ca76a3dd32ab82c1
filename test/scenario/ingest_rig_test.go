// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer"
	"synchronizer/internal/ingest"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/nats"
	"synchronizer/internal/store/postgres"
	"synchronizer/internal/store/sqlite"
	"synchronizer/test/pgtest"
)

// ingestStore is what the tests of the ingester want of a store.
type ingestStore interface {
	synchronizer.Store
	synchronizer.Inventory
	synchronizer.Reader
	synchronizer.Inspector
}

// ingestStores are the stores that cases of the ingester run on.
var ingestStores = []struct {
	name string
	open func(t *testing.T) ingestStore
}{
	{"sqlite", func(t *testing.T) ingestStore {
		db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
		require.NoError(t, err)
		return db
	}},
	{"postgres", func(t *testing.T) ingestStore { return openPostgres(t, pgtest.Database(t)) }},
}

func openPostgres(t *testing.T, url string) ingestStore {
	t.Helper()
	db, err := postgres.Open(t.Context(), url)
	require.NoError(t, err)
	return db
}

// onStores runs a test on each store.
func onStores(t *testing.T, test func(t *testing.T, store ingestStore)) {
	t.Parallel()
	for _, s := range ingestStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, s.open(t))
		})
	}
}

// ingestRig is an ingester between the embedded queue and a store, with a ledger
// that writes and answers.
type ingestRig struct {
	*ledger
	t        *testing.T
	store    ingestStore
	ingester *ingest.Ingester
	url      string // of the database, if it is PostgreSQL's

	mu     sync.Mutex
	counts map[synchronizer.DropReason]int
	heard  []synchronizer.Message // on the topic in
}

// startIngest owns the store.
func startIngest(t *testing.T, store ingestStore, change func(*ingest.Options)) *ingestRig {
	t.Helper()
	r := &ingestRig{t: t, store: store, counts: map[synchronizer.DropReason]int{}}
	q, err := nats.OpenEmbedded(t.Context(), nats.EmbeddedConfig{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	r.ledger = newLedger(t, q, queue.Compact, 1, 4)
	options := ingest.Options{
		Queue: q, Store: store, Inventory: store, Encoder: queue.Encoder{Encoding: queue.Compact}, Group: "test",
		Workers: 1, BatchRecords: 500, BatchBytes: 8 << 20,
		Logger: slog.New(slog.NewTextHandler(newLog(t, "ingester"), nil)), Registerer: prometheus.NewRegistry(), Drop: r.drop,
	}
	if change != nil {
		change(&options)
	}
	r.ingester = ingest.New(options)
	tail, err := q.Tail(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var g errgroup.Group
	g.Go(func() error { return r.ingester.Run(ctx) })
	g.Go(func() error { return r.answer(ctx, heardTail{tail, r}) })
	t.Cleanup(func() {
		cancel()
		require.NoError(t, g.Wait())
		require.NoError(t, tail.Close())
		require.NoError(t, q.Close(context.WithoutCancel(t.Context())))
		require.NoError(t, store.Close())
	})
	return r
}

func (r *ingestRig) drop(reason synchronizer.DropReason, _ string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[reason]++
}

func (r *ingestRig) dropped(reason synchronizer.DropReason) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[reason]
}

// heardTail notes what is published on in.
type heardTail struct {
	synchronizer.Tail
	r *ingestRig
}

func (h heardTail) Next(ctx context.Context) ([]synchronizer.Record, error) {
	records, err := h.Tail.Next(ctx)
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	for i := range records {
		if m, err := queue.Decode(&records[i]); err == nil {
			h.r.heard = append(h.r.heard, m)
		}
	}
	return records, err
}

// questions are how often the ingester has asked for an object.
func (r *ingestRig) questions() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.heard {
		if r.heard[i].Event == synchronizer.EventGet {
			n++
		}
	}
	return n
}

// writeWhile publishes statements until work returns, then waits until the store
// has what is true and the ingester is ready.
func (r *ingestRig) writeWhile(work func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.write(ctx, 500) }()
	work()
	cancel()
	require.NoError(r.t, <-done)
	r.agree(r.store, patience)
	eventually(r.t, "the ingester is ready", func() bool { return r.ingester.Ready() == nil })
	require.Zero(r.t, r.dropped(synchronizer.DropDeadLetter), "nothing of it is a fault of a record")
	require.NoError(r.t, r.store.Check(r.t.Context(), func(problem string) { r.t.Error(problem) }))
}

// progress waits until so many more statements are written and the store has
// taken something of them.
func (r *ingestRig) progress() {
	r.t.Helper()
	before := r.statements()
	eventually(r.t, "statements are written", func() bool { return r.statements() > before+200 })
}

func (r *ingestRig) statements() int {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	return r.said
}

func (r *ingestRig) ready(want bool) {
	r.t.Helper()
	eventually(r.t, map[bool]string{true: "the ingester is ready", false: "the ingester says what it waits for"}[want],
		func() bool { return (r.ingester.Ready() == nil) == want })
}
