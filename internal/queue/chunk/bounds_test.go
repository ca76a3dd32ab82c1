// SPDX-License-Identifier: Apache-2.0

package chunk

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

func TestSmallRecordsPass(t *testing.T) {
	inner := &passed{}
	q := New(inner, Options{MaxRecord: limit})
	records := []synchronizer.Record{small("account/a", 1), small("account/a", 2)}
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, records))
	require.Same(t, &records[0], &inner.records[0], "the caller's own slice")
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = q.Publish(t.Context(), synchronizer.Out, records) }))
}

// passed keeps what was published last.
type passed struct {
	synchronizer.Queue
	records []synchronizer.Record
	err     error
}

func (p *passed) Publish(_ context.Context, _ synchronizer.Direction, records []synchronizer.Record) error {
	p.records = records
	return p.err
}

func TestSplitting(t *testing.T) {
	inner := &passed{}
	q := New(inner, Options{MaxRecord: limit})
	whole := large("account/a", 1)
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, []synchronizer.Record{small("account/a", 0), whole, small("account/a", 2)}))
	require.Equal(t, "0", inner.records[0].Property("n"))
	require.Equal(t, "2", inner.records[len(inner.records)-1].Property("n"))
	chunks := inner.records[1 : len(inner.records)-1]
	at := 0
	for i := range chunks {
		c := &chunks[i]
		require.LessOrEqual(t, sizeOf(c), limit)
		require.Same(t, &whole.Payload[at], &c.Payload[0], "a part of the payload, not a copy")
		at += len(c.Payload)
		require.Equal(t, whole.Key, c.Key)
		require.Equal(t, "Chunk", c.Property("event"), "a word that a stock consumer ignores")
		require.Equal(t, "PutObject", c.Property("x-chunk-event"))
		require.Equal(t, "web", c.Property("name"))
	}
	require.Equal(t, len(whole.Payload), at)
	require.Greater(t, sizeOf(&chunks[0]), limit-16, "as few chunks as possible")
}

func TestTooLarge(t *testing.T) {
	inner := &passed{}
	q := New(inner, Options{MaxRecord: limit, MaxSetBytes: 5 << 10})
	properties := synchronizer.Record{Key: "account/a", Payload: []byte("{}"), Properties: []synchronizer.Property{{Name: "x", Value: strings.Repeat("x", limit)}}}
	for name, record := range map[string]synchronizer.Record{"payload": large("account/a", 1), "properties": properties} {
		err := q.Publish(t.Context(), synchronizer.Out, []synchronizer.Record{small("account/a", 0), record, small("account/a", 2)})
		require.ErrorIs(t, err, synchronizer.ErrTooLarge, name)
		require.ErrorContains(t, err, "account/a")
		require.Len(t, inner.records, 2, "the others go")
	}
	// Those that the broker refuses are told of by their places in the call, beside ours.
	inner.records, inner.err = nil, &synchronizer.TooLargeError{At: []int{1, 3, 4}, Err: synchronizer.ErrTooLarge}
	fits := large("account/a", 1)
	fits.Payload = fits.Payload[:2*limit]
	err := q.Publish(t.Context(), synchronizer.Out, []synchronizer.Record{small("account/a", 0), properties, small("account/a", 2), fits, small("account/a", 4)})
	var which *synchronizer.TooLargeError
	require.ErrorAs(t, err, &which)
	require.Len(t, inner.records, 6, "three parts of the large one")
	require.Equal(t, []int{1, 2, 3}, which.At)
	away := errors.New("broker is away")
	inner.err = away
	err = q.Publish(t.Context(), synchronizer.Out, []synchronizer.Record{properties, small("account/a", 2)})
	require.ErrorIs(t, err, away)
	require.NotErrorIs(t, err, synchronizer.ErrTooLarge, "or the others would count as published")
}

// TestNotAllowed: the broker itself refuses the record, alone.
func TestNotAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var allowed atomic.Bool
		r := newRig(t, func(o *Options) {
			o.Allowed = func(to synchronizer.Direction) bool { return to == synchronizer.Out && allowed.Load() }
		})
		records := []synchronizer.Record{small("account/a", 0), large("account/a", 1), small("account/a", 2)}
		require.ErrorIs(t, r.queue.Publish(t.Context(), synchronizer.Out, records), synchronizer.ErrTooLarge)
		require.Len(t, r.broker.Records(synchronizer.Out), 2)
		allowed.Store(true)
		require.NoError(t, r.queue.Publish(t.Context(), synchronizer.Out, records))
		require.Greater(t, len(r.broker.Records(synchronizer.Out)), 8)
		require.ErrorIs(t, r.queue.Publish(t.Context(), synchronizer.In, records), synchronizer.ErrTooLarge)
	})
}

// TestMemoryIsBounded: sets that do not fit are dropped and named, the others
// are joined, and what was held is free again.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := large("account/a", 1)
		r := newRig(t, func(o *Options) { o.MaxBytes = int64(2*len(whole.Payload) + 8<<10) })
		var sets [][]synchronizer.Record
		for k := range 5 {
			sets = append(sets, r.chunksOf(t, large("account/"+string(rune('a'+k)), k)))
		}
		for i := range sets[0] {
			for k := range sets {
				r.put(t, sets[k][i])
			}
		}
		r.put(t, concat(r.chunksOf(t, large("account/x", 8)), r.chunksOf(t, large("account/y", 9)))...)
		c := r.consume(t)
		joined := map[string]bool{}
		for !joined["account/y"] {
			b := next(t, c, 1000)
			for i := range b.Records {
				joined[b.Records[i].Key] = true
			}
			require.NoError(t, b.Ack(t.Context()))
		}
		require.GreaterOrEqual(t, len(joined), 3)
		require.True(t, joined["account/x"])
		require.Len(t, r.drops, 7-len(joined))
		for _, drop := range r.drops {
			require.Contains(t, drop, "chunks_missing: PutObject account/")
			require.Contains(t, drop, "does not fit")
		}
		nothing(t, c, time.Hour)
		require.Len(t, r.drops, 7-len(joined), "each is counted once")
	})
}

func TestSetIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		chunks := r.chunksOf(t, large("account/a", 1))
		r.queue.(*Queue).MaxSetBytes = 3 << 10
		r.put(t, chunks...)
		r.put(t, small("account/a", 2))
		b := next(t, r.consume(t), 1000)
		require.Len(t, b.Records, 1)
		require.Len(t, r.drops, 1)
		require.Contains(t, r.drops[0], "too_large: PutObject account/a")
	})
}

// TestTail: the same joining; what began before the tail is no loss.
func TestTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		put := func(records ...synchronizer.Record) {
			require.NoError(t, r.bare.Publish(t.Context(), synchronizer.In, records))
		}
		before := r.chunksOf(t, large("account/before", 1))
		put(before[:3]...)
		tailed, err := r.queue.Tail(t.Context())
		require.NoError(t, err)
		put(before[3:]...)
		lost := r.chunksOf(t, large("account/lost", 2))
		put(lost[:3]...)
		put(r.chunksOf(t, large("account/a", 3))...)
		records, err := tailed.Next(t.Context())
		require.NoError(t, err)
		require.Len(t, records, 1)
		requireSame(t, large("account/a", 3), records[0])
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err = tailed.Next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, r.drops, 1)
		require.Contains(t, r.drops[0], "account/lost")
		put(lost[:3]...)
		put(small("account/a", 4))
		_, err = tailed.Next(t.Context())
		require.NoError(t, err)
		require.NoError(t, tailed.Close(), "gives back what is held")
	})
}

// owned is a consumer that loses its partition.
type owned struct {
	synchronizer.Consumer
	lost *atomic.Bool
}

func (o owned) Owns(partition string) bool { return partition == "memory" && !o.lost.Load() }

type owner struct {
	synchronizer.Queue
	lost *atomic.Bool
}

func (o owner) Consume(ctx context.Context, group string) (synchronizer.Consumer, error) {
	c, err := o.Queue.Consume(ctx, group)
	return owned{c, o.lost}, err
}

// TestLostPartition: leftovers of a partition that another member reads now are
// no loss and hold up nothing.
func TestLostPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var lost atomic.Bool
		q := r.queue.(*Queue)
		q.Queue = owner{q.Queue, &lost}
		r.put(t, r.chunksOf(t, large("account/a", 1))[:4]...)
		r.put(t, small("account/b", 1))
		c := r.consume(t)
		require.NoError(t, next(t, c, 1000).Ack(t.Context()))
		nothing(t, c, 30*time.Second)
		require.Equal(t, 0, r.broker.Acked(group))
		lost.Store(true)
		nothing(t, c, 2*time.Second)
		require.Equal(t, 5, r.broker.Acked(group))
		require.Empty(t, r.drops)
		require.True(t, q.budget.TryAcquire(q.MaxBytes))
		q.budget.Release(q.MaxBytes)
	})
}

// TestLimitsCountWhatIsJoined: a batch is as large as the caller wants it though
// one of the broker completes several records.
func TestLimitsCountWhatIsJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var sets [][]synchronizer.Record
		for k := range 4 {
			sets = append(sets, r.chunksOf(t, large("account/"+strconv.Itoa(k), k)))
		}
		for i := range sets[0] {
			for k := range sets {
				r.put(t, sets[k][i])
			}
		}
		c := r.consume(t)
		size := large("account/0", 0)
		for range 2 {
			require.Equal(t, 0, r.broker.Acked(group), "a part of the broker's batch is not final")
			b, err := c.Next(t.Context(), 1000, 2*size.Size()+100)
			require.NoError(t, err)
			require.Len(t, b.Records, 2)
			require.NoError(t, b.Ack(t.Context()))
		}
		require.Equal(t, len(r.broker.Records(synchronizer.Out)), r.broker.Acked(group))
	})
}
