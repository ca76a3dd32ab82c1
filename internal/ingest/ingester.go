// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/internal/telemetry/tracing"
)

// Options are what an Ingester needs. All fields but those with a default, Inventory,
// EventKinds, Keeper and Tracer must be set.
type Options struct {
	Queue synchronizer.Queue
	Store synchronizer.Store
	// Inventory answers reconciliations; without it there are none, and requests
	// are counted as not supported.
	Inventory synchronizer.Inventory
	Encoder   queue.Encoder // for what is published on In
	// Group is the consumer group; members share the work.
	Group string
	// Workers is how many transactions may run at once, each about other clusters.
	// Default 1. A database with one writer gains nothing from more.
	Workers int
	// BatchRecords and BatchBytes bound one transaction.
	BatchRecords, BatchBytes int
	// MaxAttempts is how often the database may refuse a record before it becomes a
	// dead letter. Default 20, about ten seconds.
	MaxAttempts int
	// V1Kinds are the kinds that a cluster is asked for FirstSyncAfter it was first
	// connected, if nothing was heard of them until then. Default StockKinds and
	// 60 s.
	V1Kinds        []synchronizer.Kind
	FirstSyncAfter time.Duration
	// EventKinds are kinds whose objects are reports, beside those of Kubescape.
	EventKinds []synchronizer.Kind
	// Keeper forgets what Retention says; nil: nothing is forgotten.
	Keeper    Forgetting
	Retention Retention
	// Tracer makes a span of each transaction; nil: none.
	Tracer *tracing.Tracer

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Drop       synchronizer.DropFunc
	Now        func() time.Time // default time.Now
}

const defaultAttempts = 20

// Ingester works on one group until its context ends.
type Ingester struct {
	Options
	metrics *metrics
	offers  *offers
	agenda  *agenda
	listed  *lru.Cache[string, struct{}] // requests that were answered, by their MsgID
	health  *health
	written atomic.Int64 // when the last transaction was committed, Unix nanoseconds
}

// New makes an ingester; Run starts it.
func New(o Options) *Ingester {
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.V1Kinds) == 0 {
		o.V1Kinds = StockKinds
	}
	if o.FirstSyncAfter <= 0 {
		o.FirstSyncAfter = firstSyncAfter
	}
	if o.MaxAttempts <= 0 {
		o.MaxAttempts = defaultAttempts
	}
	o.Workers = max(o.Workers, 1)
	return &Ingester{
		Options: o, metrics: newMetrics(o.Registerer), offers: newOffers(), agenda: newAgenda(), listed: newAnswered(),
		health: newHealth(),
	}
}

// Ready is nil while records can be written, else why not.
func (i *Ingester) Ready() error { return i.health.ready(i.Now()) }

// Run consumes until ctx ends (nil) or the queue is closed. Database and broker
// may come and go: nothing is acknowledged before it is committed, and nothing
// that is away counts as a fault of a record.
func (i *Ingester) Run(ctx context.Context) error {
	consumer, err := i.Queue.Consume(ctx, i.Group)
	if ctx.Err() != nil && err != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("joining consumer group %q: %w", i.Group, err)
	}
	defer func() { _ = consumer.Close() }()

	l := newLedger(i.Workers*i.BatchRecords, i.Workers*i.BatchBytes)
	lanes := make([]*lane, i.Workers)
	g, ctx := errgroup.WithContext(ctx)
	for k := range lanes {
		lanes[k] = newLane(i, l)
		g.Go(func() error { return lanes[k].run(ctx) })
	}
	g.Go(func() error { return i.fetch(ctx, consumer, l, lanes) })
	g.Go(func() error { return i.acknowledge(ctx, l) })
	g.Go(func() error { return i.probe(ctx) })
	if i.Inventory != nil {
		g.Go(func() error { return i.keepAgenda(ctx) })
	}
	if i.Keeper != nil {
		g.Go(func() error { return i.forget(ctx) })
	}
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, synchronizer.ErrClosed) {
		return fmt.Errorf("consuming: %w", err)
	}
	return nil
}

// fetch takes what has arrived, reads it and hands it to the lanes, as long as
// the ledger has room: so reading overlaps with writing, and memory is bounded.
func (i *Ingester) fetch(ctx context.Context, consumer synchronizer.Consumer, l *ledger, lanes []*lane) error {
	for {
		if err := l.wait(ctx); err != nil {
			return err
		}
		b, err := consumer.Next(ctx, i.BatchRecords, i.BatchBytes)
		if err != nil {
			return err
		}
		items := make([]item, len(b.Records))
		for k := range b.Records {
			items[k] = read(&b.Records[k])
		}
		l.enter(items, b.Ack)
		share(items, lanes)
	}
}

// acknowledge tells the broker of deliveries that are final, in their order, until
// ctx ends.
func (i *Ingester) acknowledge(ctx context.Context, l *ledger) error {
	for {
		ack, err := l.next(ctx)
		if err != nil {
			return err
		}
		if err := i.persist(ctx, "queue", "acknowledging records", ack); err != nil {
			return err
		}
	}
}
