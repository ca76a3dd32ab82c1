// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"synchronizer"
	"synchronizer/internal/queue"
)

// Options are what an Ingester needs. All fields but those with a default and
// Inventory must be set.
type Options struct {
	Queue synchronizer.Queue
	Store synchronizer.Store
	// Inventory answers reconciliations; without it there are none, and requests
	// are counted as not supported.
	Inventory synchronizer.Inventory
	Encoder   queue.Encoder // for what is published on In
	// Group is the consumer group; members share the work.
	Group string
	// BatchRecords and BatchBytes bound one transaction.
	BatchRecords, BatchBytes int
	// V1Kinds are the kinds that a cluster is asked for FirstSyncAfter it was first
	// connected, if nothing was heard of them until then. Default StockKinds and
	// 60 s.
	V1Kinds        []synchronizer.Kind
	FirstSyncAfter time.Duration

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Drop       synchronizer.DropFunc
	Now        func() time.Time // default time.Now
}

// Ingester works on one group until its context ends.
type Ingester struct {
	Options
	metrics *metrics
	offers  *offers
	agenda  *agenda
	listed  *lru.Cache[string, struct{}] // requests that were answered, by their MsgID
	trouble atomic.Pointer[error]        // why nothing can be written just now
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
	i := &Ingester{Options: o, metrics: newMetrics(o.Registerer), offers: newOffers(), agenda: newAgenda(), listed: newAnswered()}
	starting := errors.New("ingester is starting")
	i.trouble.Store(&starting)
	return i
}

// Ready is nil while records can be written, else why not.
func (i *Ingester) Ready() error {
	if err := i.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// batch is what one transaction works on.
type batch struct {
	items []item
	ack   func(context.Context) error
}

// Run consumes until ctx ends (nil) or the queue is closed. Database and broker
// may come and go: nothing is acknowledged before it is committed, and nothing
// that is away counts as a fault of a record.
func (i *Ingester) Run(ctx context.Context) error {
	consumer, err := i.Queue.Consume(ctx, i.Group)
	if err != nil {
		return fmt.Errorf("joining consumer group %q: %w", i.Group, err)
	}
	defer func() { _ = consumer.Close() }()
	i.trouble.Store(nil)

	// Fetching and reading the next batch overlaps with writing this one.
	batches := make(chan batch, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(batches)
		for {
			b, err := consumer.Next(ctx, i.BatchRecords, i.BatchBytes)
			if err != nil {
				return err
			}
			next := batch{items: make([]item, len(b.Records)), ack: b.Ack}
			for k := range b.Records {
				next.items[k] = read(&b.Records[k])
			}
			select {
			case batches <- next:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if i.Inventory != nil {
		g.Go(func() error { return i.keepAgenda(ctx) })
	}
	g.Go(func() error {
		for b := range batches {
			if err := i.handle(ctx, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, synchronizer.ErrClosed) {
		return fmt.Errorf("consuming: %w", err)
	}
	return nil
}

// handle makes one batch final: committed, answered, acknowledged.
func (i *Ingester) handle(ctx context.Context, b batch) error {
	i.metrics.batch.Observe(float64(len(b.items)))
	asks, err := i.commit(ctx, b.items)
	if err != nil {
		return err
	}
	if err := i.answer(ctx, asks.objects); err != nil {
		return err
	}
	if err := i.reconcile(ctx, b.items); err != nil {
		return err
	}
	i.escalate(asks.exact)
	if err := i.setAside(ctx, b.items); err != nil {
		return err
	}
	if err := i.persist(ctx, "queue", "acknowledging records", func() error { return b.ack(ctx) }); err != nil {
		return err
	}
	for k := range b.items {
		i.metrics.records.WithLabelValues(b.items[k].msg.Event.String(), string(b.items[k].result)).Inc()
	}
	return nil
}

// answer publishes the questions of a batch.
func (i *Ingester) answer(ctx context.Context, asks []synchronizer.Message) error {
	if len(asks) == 0 {
		return nil
	}
	records := make([]synchronizer.Record, len(asks))
	for k := range asks {
		r, err := i.Encoder.Encode(&asks[k], queue.Extra{})
		if err != nil {
			return fmt.Errorf("encoding question: %w", err) // of our own making: cannot happen
		}
		records[k] = r
	}
	return i.persist(ctx, "queue", "publishing questions", func() error {
		return i.Queue.Publish(ctx, synchronizer.In, records)
	})
}

// setAside moves records that can never be stored to the dead-letter topic and
// names what was not carried.
func (i *Ingester) setAside(ctx context.Context, items []item) error {
	var dead []synchronizer.Record
	for k := range items {
		it := &items[k]
		switch it.result {
		case resultFault:
			r := *it.record
			r.Properties = append(r.Properties[:len(r.Properties):len(r.Properties)],
				synchronizer.Property{Name: "x-dead-letter-reason", Value: it.fault.Error()})
			dead = append(dead, r)
			i.Drop(it.dropReason(), it.name()+": "+it.fault.Error())
		case resultStale:
			i.Drop(synchronizer.DropStale, it.name())
		case resultPatch:
			i.Drop(synchronizer.DropPatchBase, it.name())
		case resultNone:
			reason := synchronizer.DropUnsupported
			if it.msg.Event == synchronizer.EventUnknown {
				reason = synchronizer.DropUnknownEvent
			}
			i.Drop(reason, it.name())
		}
	}
	if len(dead) == 0 {
		return nil
	}
	return i.persist(ctx, "queue", "publishing dead letters", func() error {
		err := i.Queue.Publish(ctx, synchronizer.DeadLetter, dead)
		if errors.Is(err, synchronizer.ErrTooLarge) {
			i.Logger.Error("a dead letter is too large for the queue and is lost; its name was logged", "error", err)
			return nil
		}
		return err
	})
}

// persist repeats f until it succeeds or ctx ends, and keeps Ready truthful
// meanwhile. Of says what is away.
func (i *Ingester) persist(ctx context.Context, of, doing string, f func() error) error {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = 50*time.Millisecond, 10*time.Second
	for {
		err := f()
		if err == nil {
			i.trouble.Store(nil)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, synchronizer.ErrClosed) {
			return err
		}
		err = fmt.Errorf("%s: %w", doing, err)
		if i.trouble.Swap(&err) == nil {
			i.Logger.Warn("waiting: nothing is acknowledged until it works again", "error", err)
		}
		i.metrics.retries.WithLabelValues(of).Inc()
		select {
		case <-time.After(policy.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
