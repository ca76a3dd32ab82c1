// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"synchronizer"
	"synchronizer/internal/queue"
)

// Schedule says when something is due by the wall clock: the first time behind
// another, the zero time if there is none.
type Schedule interface {
	Next(after time.Time) time.Time
}

// Periodic is the regular reconciliation of clients that have been connected for
// some time. Its zero value is none.
type Periodic struct {
	// Cron wins over Every; neither (nil, 0 or less): no runs.
	Cron  Schedule
	Every time.Duration
	// MinAge is how old a connection must be to be asked; 0 or less: no runs.
	MinAge time.Duration
	// Batch asks all clients of a run in one record instead of one each.
	Batch bool
}

const (
	// longestNap bounds the wait for a time of the wall clock, which can be set
	// meanwhile.
	longestNap = time.Minute
	// requestsAtOnce is how many requests of a run are given to the queue at a time.
	requestsAtOnce = 500
)

// withRoom is a delay to which the jitter can be added; ok is false if it cannot.
func withRoom(delay time.Duration) (_ time.Duration, ok bool) {
	if delay > 0 && delay > math.MaxInt64-delay/jitterDivisor-1 {
		return 0, false
	}
	return delay, true
}

// startTasks starts what a server does regularly; stop ends it and waits.
func (s *Server) startTasks(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	if every := s.options.KeepAlive; every > 0 {
		tasks.Go(func() { repeat(ctx, every, s.keepAlive) })
	}
	switch p := s.options.Periodic; {
	case p.MinAge <= 0:
	case p.Cron != nil:
		tasks.Go(func() { s.follow(ctx, p.Cron, s.reconcileAll) })
	case p.Every > 0:
		tasks.Go(func() { repeat(ctx, p.Every, s.reconcileAll) })
	}
	return func() {
		cancel()
		tasks.Wait()
	}
}

// repeat calls run after each interval until ctx ends. A run that takes longer
// leaves out what it has missed.
func repeat(ctx context.Context, interval time.Duration, run func(context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			run(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// follow calls run at the times of a schedule until ctx ends or there are no more.
// It looks at the wall clock again and again: when that is set forward, what lies
// between is made up for by one run; when it is set back, the times that come
// again count again.
func (s *Server) follow(ctx context.Context, schedule Schedule, run func(context.Context)) {
	wall := func() time.Time { return s.options.Now().Round(0) } // a monotonic reading would win
	last := wall()
	for next := schedule.Next(last); !next.IsZero(); {
		nap := time.NewTimer(min(next.Sub(last), longestNap))
		select {
		case <-nap.C:
		case <-ctx.Done():
			nap.Stop()
			return
		}
		now := wall()
		switch {
		case !now.Before(next):
			run(ctx)
			now = wall()
			next = schedule.Next(now)
		case last.Sub(now) > longestNap: // less is a correction, and no reason to run twice
			next = schedule.Next(now)
		}
		last = now
	}
}

// reconcileAll asks for a reconciliation of every cluster whose newest connection
// is old enough and of a client that understands it.
func (s *Server) reconcileAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.publishTimeout)
	defer cancel()
	var requests []synchronizer.Message
	for _, c := range s.registry.newestOfAll() {
		// How old a connection is says the monotonic clock.
		if time.Since(c.opened) >= s.options.Periodic.MinAge && reconciles(c.hello.SynchronizerVersion) {
			requests = append(requests, synchronizer.Message{
				Event: synchronizer.EventReconciliation, ClusterID: c.id(), ServerInitiated: true,
			})
		}
	}
	if len(requests) == 0 {
		return
	}
	publish := s.publishRequests
	if s.options.Periodic.Batch {
		publish = s.publishBatch
	}
	if err := publish(ctx, requests); err != nil && ctx.Err() != context.Canceled {
		s.options.Logger.Warn("asking for the periodic reconciliation", "clusters", len(requests), "error", err)
	}
}

// publishRequests publishes a record for each request.
func (s *Server) publishRequests(ctx context.Context, requests []synchronizer.Message) error {
	for some := range slices.Chunk(requests, requestsAtOnce) {
		records := make([]synchronizer.Record, 0, len(some))
		for i := range some {
			some[i].MsgID = uuid.NewString()
			r, err := s.encode(&some[i])
			if err != nil {
				return err
			}
			records = append(records, r)
		}
		if err := s.publish(ctx, records); err != nil {
			return err
		}
	}
	return nil
}

// publishBatch publishes all requests in one record; they have no MsgID of their own.
func (s *Server) publishBatch(ctx context.Context, requests []synchronizer.Message) error {
	return publishList(ctx, s, requests, func(some []synchronizer.Message) synchronizer.Message {
		return synchronizer.Message{Event: synchronizer.EventReconciliationBatch, Requests: some}
	})
}

// publishList publishes a record about a list, for nobody in particular. Where the
// queue takes none of that size, it becomes several.
func publishList[T any](ctx context.Context, s *Server, list []T, message func([]T) synchronizer.Message) error {
	m := message(list)
	m.MsgID = uuid.NewString()
	r, err := s.encoder.Encode(&m, queue.Extra{})
	if err != nil {
		return err
	}
	err = s.publish(ctx, []synchronizer.Record{r})
	if !errors.Is(err, synchronizer.ErrTooLarge) || len(list) < 2 {
		return err
	}
	half := len(list) / 2
	return errors.Join(publishList(ctx, s, list[:half], message), publishList(ctx, s, list[half:], message))
}

// newestOfAll gives the newest connection of each cluster, in the order of their names.
func (r *registry) newestOfAll() []*connection {
	r.mu.Lock()
	ids := slices.Collect(maps.Keys(r.clusters))
	r.mu.Unlock()
	slices.SortFunc(ids, func(a, b synchronizer.ClusterID) int {
		return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Cluster, b.Cluster))
	})
	var open []*connection
	for _, id := range ids {
		if c := r.find(id); c != nil {
			open = append(open, c)
		}
	}
	return open
}
