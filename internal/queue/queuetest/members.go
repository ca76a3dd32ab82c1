// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer"
)

// hands checks that a key is in one member's hands at a time: a member may get a
// record only behind records that it has had itself, or whose acknowledgement has
// begun. When a key changes its member, the new one may get again what the other
// still holds, but nothing behind it without that.
type hands struct {
	mu    sync.Mutex
	final map[string]int // per key, the number up to which acknowledgements have begun
}

// took notes what came to a member; next are the numbers that it expects.
func (h *hands) took(next map[string]int, records []synchronizer.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range records {
		key := records[i].Key
		n, err := numberOf(&records[i])
		if err != nil {
			return err
		}
		if n > next[key] && n > h.final[key] {
			return fmt.Errorf("%s: %d came to one member while another has %d in its hands", key, n, h.final[key])
		}
		next[key] = n + 1
	}
	return nil
}

// finish notes that an acknowledgement begins.
func (h *hands) finish(records []synchronizer.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range records {
		n, err := numberOf(&records[i])
		if err != nil {
			return err
		}
		h.final[records[i].Key] = max(h.final[records[i].Key], n+1)
	}
	return nil
}

// work lets a member read until ctx ends; got counts its own. It acknowledges late,
// so that it has something in its hands when others come and go.
func work(ctx context.Context, c synchronizer.Consumer, p *progress, h *hands, got *atomic.Int64) error {
	const hold = 150 * time.Millisecond
	next := map[string]int{}
	var held []synchronizer.Batch
	var since time.Time
	for {
		limited, cancel := ctx, func() {}
		if len(held) > 0 {
			limited, cancel = context.WithDeadline(ctx, since.Add(hold))
		}
		batch, err := c.Next(limited, 20, 1<<20)
		waited := limited.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if err := h.took(next, batch.Records); err != nil {
				return err
			}
			if err := p.add(batch.Records); err != nil {
				return err
			}
			got.Add(int64(len(batch.Records)))
			if len(held) == 0 {
				since = time.Now()
			}
			if held = append(held, batch); time.Since(since) < hold {
				continue
			}
		case !waited:
			return err
		}
		for _, b := range held {
			if err := h.finish(b.Records); err != nil {
				return err
			}
		}
		// It stands for those before. What went to another member meanwhile cannot be
		// acknowledged here, and comes again there.
		_ = held[len(held)-1].Ack(ctx)
		held = nil
	}
}

// share publishes rounds of numbered records of many keys until enough says so,
// and waits until all were read.
func share(ctx context.Context, q synchronizer.Queue, p *progress, from int, enough func(round int) bool) (rounds int, err error) {
	const keys = 40
	rounds = from
	for {
		var all []synchronizer.Record
		for k := range keys {
			all = append(all, numbered(fmt.Sprintf("account/%d", k), rounds*5, rounds*5+5)...)
		}
		if err := q.Publish(ctx, synchronizer.Out, all); err != nil {
			return rounds, err
		}
		rounds++
		if err := p.wait(ctx, rounds*5*keys); err != nil {
			return rounds, err
		}
		if enough(rounds - from) {
			return rounds, nil
		}
	}
}

func testMembers(t *testing.T, s *suite) {
	q := s.start(t)
	first := s.consume(t, q)
	if s.OneMember {
		_, err := q.Consume(s.ctx(t), group)
		require.ErrorIs(t, err, synchronizer.ErrInvalid)
		require.ErrorContains(t, err, group)
		return
	}
	second := s.consume(t, s.another(t, q))
	s.shareAmong(t, q, newProgress(), first, second)
}

// testThirdJoins: while two work a third joins.
func testThirdJoins(t *testing.T, s *suite) {
	q := s.start(t)
	first := s.consume(t, q)
	second := s.consume(t, s.another(t, q))
	other := s.another(t, q)
	p := newProgress()
	s.shareAmong(t, q, p, first, second, other)
}

// shareAmong lets members share until each had work, the last of which may be a
// queue whose member joins only when the others have worked for a while. Per key,
// first deliveries come in order over all members, and to one member at a time.
func (s *suite) shareAmong(t *testing.T, q synchronizer.Queue, p *progress, readers ...any) {
	t.Helper()
	s.Patience *= 2
	ctx, cancel := context.WithCancel(s.ctx(t))
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	got := make([]atomic.Int64, len(readers))
	h := &hands{final: map[string]int{}}
	all := func(n int) func(int) bool {
		return func(round int) bool {
			for i := range got[:n] {
				if got[i].Load() == 0 {
					return false
				}
			}
			return round >= 5
		}
	}
	rounds := 0
	for i, reader := range readers {
		switch reader := reader.(type) {
		case synchronizer.Consumer:
			g.Go(func() error { return work(ctx, reader, p, h, &got[i]) })
		case synchronizer.Queue:
			var err error
			rounds, err = share(ctx, q, p, rounds, all(i))
			require.NoError(t, err)
			// It joins while the others have records in their hands.
			var joined atomic.Bool
			var meanwhile errgroup.Group
			meanwhile.Go(func() (err error) {
				rounds, err = share(ctx, q, p, rounds, func(int) bool { return joined.Load() })
				return err
			})
			late, err := reader.Consume(ctx, group)
			if err == nil {
				g.Go(func() error { return work(ctx, late, p, h, &got[i]) })
			}
			joined.Store(true)
			require.NoError(t, meanwhile.Wait())
			require.NoError(t, err)
		}
	}
	_, err := share(ctx, q, p, rounds, all(len(readers)))
	cancel()
	require.NoError(t, g.Wait())
	require.NoError(t, err)
}

// testConsumerKilled: a process ends with batches in its hands, of which it has
// acknowledged none; another one gets them.
func testConsumerKilled(t *testing.T, s *suite) {
	q := s.open(t)
	first := s.consume(t, q)
	var survivor synchronizer.Queue
	var second synchronizer.Consumer
	if !s.OneMember {
		survivor = s.start(t)
		second = s.consume(t, survivor)
	}
	const keys, each = 20, 50
	var all []synchronizer.Record
	for k := range keys {
		all = append(all, numbered(fmt.Sprintf("account/%d", k), 0, each)...)
	}
	s.publish(t, q, synchronizer.Out, all...)
	_, err := first.Next(s.ctx(t), 30, 1<<20)
	require.NoError(t, err)
	closeQueue(t, q)
	if second == nil {
		second = s.consume(t, s.start(t))
	}
	p, ctx := newProgress(), s.ctx(t)
	for p.count() < keys*each {
		batch, err := second.Next(ctx, 100, 1<<20)
		require.NoError(t, err, "after %d of %d records", p.count(), keys*each)
		require.NoError(t, p.add(batch.Records))
		require.NoError(t, batch.Ack(ctx))
	}
}

// testSlowConsumer: what a consumer and a tail do not read stays on the broker;
// others go on.
func testSlowConsumer(t *testing.T, s *suite) {
	q := s.start(t)
	slow := s.another(t, q)
	c := s.consume(t, slow)
	tailed, err := slow.Tail(s.ctx(t))
	require.NoError(t, err)
	other, err := q.Tail(s.ctx(t))
	require.NoError(t, err)
	const records, size, most = 176, 256 << 10, 32 << 20 // 44 MiB each way
	payload := bytesOf(size)
	before := heap()
	for i := range records {
		r := synchronizer.Record{Key: fmt.Sprintf("account/%d", i%10), Payload: payload}
		s.publish(t, q, synchronizer.Out, r)
		s.publish(t, q, synchronizer.In, r)
		require.Len(t, s.readTail(t, other, 1)[0].Payload, size)
	}
	// A broker in the process keeps what it has just written for a moment.
	var held int64
	require.Eventually(t, func() bool {
		held = heap() - before
		return held < most
	}, s.Patience, 500*time.Millisecond, "%d bytes are held for readers that do not read", &held)
	s.Patience *= 2
	require.Len(t, s.readTail(t, tailed, records), records)
	require.Len(t, s.read(t, c, records), records)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
