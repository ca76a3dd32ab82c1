// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"synchronizer"
	"synchronizer/internal/telemetry/traceparent"
	"synchronizer/internal/telemetry/tracing"
)

const (
	// A record that the database refuses is tried again after firstPause, then after
	// twice as long each time up to longestPause: 20 attempts take about nine
	// seconds, well within the time that brokers wait for an acknowledgement.
	firstPause, longestPause = 25 * time.Millisecond, 500 * time.Millisecond
)

// lane works on a part of the clusters, one transaction after the other. All
// records of one cluster go through one lane: they stay in order, and sources get
// their generations in the order in which they appeared.
type lane struct {
	*Ingester
	ledger *ledger
	wake   chan struct{} // capacity 1: something has arrived

	mu      sync.Mutex
	arrived []item

	// refused are items that the database refused and that are to be tried again.
	// Nothing waits for them: later records of the same object are newer, so they are
	// right whether these are written before, after or never.
	refused []item
}

func newLane(i *Ingester, l *ledger) *lane {
	return &lane{Ingester: i, ledger: l, wake: make(chan struct{}, 1)}
}

var laneSeed = maphash.MakeSeed()

// share hands items to the lanes of their clusters.
func share(items []item, lanes []*lane) {
	if len(lanes) == 1 {
		lanes[0].add(items)
		return
	}
	parts := make([][]item, len(lanes))
	for k := range items {
		at := 0
		if id := items[k].msg.ClusterID; id != (synchronizer.ClusterID{}) {
			at = int(maphash.Comparable(laneSeed, id) % uint64(len(lanes)))
		}
		parts[at] = append(parts[at], items[k])
	}
	for at, part := range parts {
		if len(part) > 0 {
			lanes[at].add(part)
		}
	}
}

func (l *lane) add(items []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.arrived) == 0 {
		l.arrived = items
	} else {
		l.arrived = append(l.arrived, items...)
	}
	poke(l.wake)
}

// take takes what has arrived, as much as one transaction may hold.
func (l *lane) take() []item {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, bytes := 0, 0
	for n < len(l.arrived) && n < l.BatchRecords && (n == 0 || bytes+l.arrived[n].bytes <= l.BatchBytes) {
		bytes += l.arrived[n].bytes
		n++
	}
	items := l.arrived[:n:n]
	l.arrived = l.arrived[n:]
	if len(l.arrived) > 0 {
		poke(l.wake)
	}
	return items
}

// run works until ctx ends.
func (l *lane) run(ctx context.Context) error {
	for {
		due, pause := l.due()
		for _, items := range [][]item{due, l.take()} {
			if len(items) == 0 {
				continue
			}
			pause = 0
			if err := l.handle(ctx, items); err != nil {
				return err
			}
		}
		if pause == 0 {
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-l.wake:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// due takes the refused items whose time has come, else says how long to wait.
func (l *lane) due() (due []item, pause time.Duration) {
	now, pause := l.Now(), time.Hour
	rest := l.refused[:0]
	for k := range l.refused {
		if wait := l.refused[k].again.Sub(now); wait > 0 {
			pause = min(pause, wait)
			rest = append(rest, l.refused[k])
		} else {
			due = append(due, l.refused[k])
		}
	}
	clear(l.refused[len(rest):])
	l.refused = rest
	return due, pause
}

// handle makes items final: committed, answered, and free to be acknowledged. What
// the database refused is final after MaxAttempts.
func (l *lane) handle(ctx context.Context, items []item) error {
	l.metrics.batch.Observe(float64(len(items)))
	end := l.span(ctx, items)
	asks, err := l.commit(ctx, items)
	end(err)
	if err != nil {
		return err
	}
	if items, err = l.retain(ctx, items); err != nil {
		return err
	}
	if err := l.answer(ctx, asks.objects); err != nil {
		return err
	}
	if err := l.reconcile(ctx, items); err != nil {
		return err
	}
	l.escalate(asks.exact)
	if err := l.setAside(ctx, items); err != nil {
		return err
	}
	for k := range items {
		l.metrics.records.WithLabelValues(items[k].msg.Event.String(), string(items[k].result)).Inc()
	}
	l.ledger.leave(items)
	return nil
}

// retain keeps the items that the database refused and returns the final ones,
// with those that were refused too often among them.
func (l *lane) retain(ctx context.Context, items []item) ([]item, error) {
	final := items[:0]
	for k := range items {
		it := &items[k]
		if it.refusal == nil {
			final = append(final, *it)
			continue
		}
		it.attempts++
		l.metrics.refused.Inc()
		if it.attempts < l.MaxAttempts {
			pause := min(firstPause<<min(it.attempts-1, 10), longestPause)
			if it.attempts == 1 {
				l.Logger.WarnContext(traceparent.NewContext(ctx, it.msg.TraceParent),
					"the database refuses a record; it is tried again, and nothing waits for it", "what", it.name(), "error", it.refusal)
			}
			it.again, it.refusal = l.Now().Add(pause), nil
			l.refused = append(l.refused, *it)
			continue
		}
		if err := l.mark(ctx, it); err != nil {
			return nil, err
		}
		it.fail(it.refusal)
		final = append(final, *it)
	}
	return final, nil
}

func noSpan(error) {}

// span starts the spans of a transaction.
func (i *Ingester) span(ctx context.Context, items []item) (end func(error)) {
	if i.Tracer == nil {
		return noSpan
	}
	return i.Tracer.Work(ctx, tracing.SpanCommit, len(items), func(k int) string { return items[k].msg.TraceParent })
}
