// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer"
)

// work lets a member read and acknowledge until ctx ends; got counts its own.
func work(ctx context.Context, c synchronizer.Consumer, p *progress, got *atomic.Int64) error {
	for {
		batch, err := c.Next(ctx, 20, 1<<20)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.add(batch.Records); err != nil {
			return err
		}
		got.Add(int64(len(batch.Records)))
		// What went to another member meanwhile cannot be acknowledged here, and
		// comes again there.
		_ = batch.Ack(ctx)
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
// queue whose member joins only when the others have worked for a while.
func (s *suite) shareAmong(t *testing.T, q synchronizer.Queue, p *progress, readers ...any) {
	t.Helper()
	s.Patience *= 2
	ctx, cancel := context.WithCancel(s.ctx(t))
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	got := make([]atomic.Int64, len(readers))
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
			g.Go(func() error { return work(ctx, reader, p, &got[i]) })
		case synchronizer.Queue:
			var err error
			rounds, err = share(ctx, q, p, rounds, all(i))
			require.NoError(t, err)
			late, err := reader.Consume(ctx, group)
			require.NoError(t, err)
			g.Go(func() error { return work(ctx, late, p, &got[i]) })
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
	const records, size, most = 256, 256 << 10, 32 << 20 // 64 MiB each way
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
