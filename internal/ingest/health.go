// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"synchronizer"
)

const (
	// slowAfter is how long one transaction, publication or acknowledgement may take
	// before the ingester is no longer ready.
	slowAfter = 30 * time.Second
	// transactionLimit is when one that does not end is given up and begun again:
	// the connection may be dead. Each further try may take twice as long.
	transactionLimit, longestTransaction = time.Minute, 16 * time.Minute
	// probeEvery is how often a database is asked that has nothing to do.
	probeEvery = 10 * time.Second
)

// health knows what is waited for.
type health struct {
	mu      sync.Mutex
	started bool // the database has answered once
	running map[*effort]struct{}
}

// effort is one thing that is tried until it succeeds.
type effort struct {
	doing string
	since time.Time // when this try began
	err   error     // of the try before
}

func newHealth() *health { return &health{running: map[*effort]struct{}{}} }

var errStarting = errors.New("ingester is starting")

// ready is the oldest trouble there is.
func (h *health) ready(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var err error
	var oldest time.Time
	for e := range h.running {
		trouble := e.err
		if took := now.Sub(e.since); trouble == nil && took > slowAfter {
			trouble = fmt.Errorf("%s: no answer for %s", e.doing, took.Round(time.Second))
		}
		if trouble != nil && (err == nil || e.since.Before(oldest)) {
			err, oldest = trouble, e.since
		}
	}
	if err == nil && !h.started {
		err = errStarting
	}
	return err
}

func (h *health) begin(e *effort, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.since = now
	h.running[e] = struct{}{}
}

// failed says whether it is the first trouble.
func (h *health) failed(e *effort, err error) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first = true
	for other := range h.running {
		first = first && other.err == nil
	}
	e.err = err
	return first
}

// answered notes that the database works, and forgets that it did not when it was
// only asked.
func (h *health) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = true
	for e := range h.running {
		if e.doing == asking {
			e.err = nil
		}
	}
}

const asking = "asking the database"

func (h *health) end(e *effort) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, e)
}

// persist repeats f until it succeeds or ctx ends, and keeps Ready truthful
// meanwhile. Of says what is away.
func (i *Ingester) persist(ctx context.Context, of, doing string, f func(context.Context) error) error {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = 50*time.Millisecond, 10*time.Second
	limit := transactionLimit
	e := &effort{doing: doing}
	defer i.health.end(e)
	for {
		i.health.begin(e, i.Now())
		limited, cancel := context.WithTimeout(ctx, limit)
		err := f(limited)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, synchronizer.ErrClosed) {
			return err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			limit = min(2*limit, longestTransaction)
		}
		err = fmt.Errorf("%s: %w", doing, err)
		if i.health.failed(e, err) {
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

// probe asks a database that has nothing to do, so that Ready is true of it as
// well. The first answer ends the start.
func (i *Ingester) probe(ctx context.Context) error {
	for {
		if i.Now().Sub(time.Unix(0, i.written.Load())) >= probeEvery {
			err := i.persist(ctx, "store", asking, func(ctx context.Context) error {
				return i.Store.Update(ctx, func(synchronizer.Tx) error { return nil })
			})
			if err != nil {
				return err
			}
		}
		i.health.answered()
		select {
		case <-time.After(probeEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
