// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue/chunk"
)

// layered opens the bare queue of a broker with a small limit, with package
// chunk around it.
func (s *suite) layered(t *testing.T, bare Open, o chunk.Options) synchronizer.Queue {
	t.Helper()
	if o.MaxRecord == 0 {
		o.MaxRecord = s.Chunks.MaxRecord
	}
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	q := chunk.New(bare(t), o)
	t.Cleanup(func() { closeQueue(t, q) })
	return q
}

func testLargeInParts(t *testing.T, s *suite) {
	if s.Limited != nil {
		s.queue = s.Limited(t)
		s.carryLarge(t, s.start(t), 20<<20)
		return
	}
	q := s.layered(t, s.Chunks.New(t), chunk.Options{})
	s.carryLarge(t, q, 20<<20)
}

// testParts: what stands twice on the broker is joined once in its place, what
// lacks a part is counted, and holds nothing up.
func testParts(t *testing.T, s *suite) {
	open := s.Chunks.New(t)
	publisher := open(t)
	t.Cleanup(func() { closeQueue(t, publisher) })
	var mu sync.Mutex
	var drops []string
	o := chunk.Options{Expire: 300 * time.Millisecond, Drop: func(reason synchronizer.DropReason, what string) {
		mu.Lock()
		defer mu.Unlock()
		drops = append(drops, string(reason)+": "+what)
	}}
	var reading synchronizer.Queue
	if s.OneMember {
		reading = chunk.New(publisher, withLimit(o, s.Chunks.MaxRecord))
	} else {
		reading = s.layered(t, open, o)
	}
	large := synchronizer.Record{Key: "account/large", Payload: bytesOf(4*s.Chunks.MaxRecord + 1000)}
	lost := synchronizer.Record{Key: "account/lost", Payload: bytesOf(4*s.Chunks.MaxRecord + 2000)}
	parts, part := s.parts(t, large), s.parts(t, lost)
	require.Greater(t, len(parts), 4)
	all := append([]synchronizer.Record{}, parts[:3]...)
	all = append(all, part[:2]...)
	all = append(all, parts[1:]...)
	all = append(all, part[3:]...)
	all = append(all, parts[2:]...)
	s.publish(t, publisher, synchronizer.Out, all...)
	s.publish(t, publisher, synchronizer.Out, numbered("account/a", 0, 10)...)
	c := s.consume(t, reading)
	records := s.read(t, c, 11)
	at := 0
	for i := range records {
		if records[i].Key == large.Key {
			require.True(t, bytes.Equal(large.Payload, records[i].Payload))
			at++
		}
	}
	require.Equal(t, 1, at)
	// The reader notices it while it waits.
	ctx := s.ctx(t)
	for {
		limited, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		_, err := c.Next(limited, 10, 1<<20)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, ctx.Err())
		mu.Lock()
		n := len(drops)
		mu.Unlock()
		if n > 0 {
			break
		}
	}
	require.NoError(t, c.Close())
	s.publish(t, publisher, synchronizer.Out, numbered("account/a", 10, 20)...)
	again := s.read(t, s.consume(t, reading), 10)
	require.Equal(t, 10, number(t, &again[0]), "what the lost part held up is acknowledged")
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, drops, 1)
	require.Contains(t, drops[0], string(synchronizer.DropChunks))
	require.Contains(t, drops[0], lost.Key)
}

func withLimit(o chunk.Options, limit int) chunk.Options {
	o.MaxRecord = limit
	return o
}

// parts are the records that package chunk makes of one.
func (s *suite) parts(t *testing.T, whole synchronizer.Record) []synchronizer.Record {
	t.Helper()
	kept := &keeper{}
	q := chunk.New(kept, chunk.Options{MaxRecord: s.Chunks.MaxRecord})
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, []synchronizer.Record{whole}))
	return kept.records
}

// keeper keeps what is published.
type keeper struct {
	synchronizer.Queue
	records []synchronizer.Record
}

func (k *keeper) Publish(_ context.Context, _ synchronizer.Direction, records []synchronizer.Record) error {
	k.records = append(k.records, records...)
	return nil
}

// testOverLimitAmongSmall: records around the brokers' usual limit.
func testOverLimitAmongSmall(t *testing.T, s *suite) {
	var q synchronizer.Queue
	if s.Chunks != nil {
		q = s.layered(t, s.Chunks.New(t), chunk.Options{})
	} else {
		q = s.start(t)
	}
	var all []synchronizer.Record
	for _, size := range []int{10 << 10, 3 << 20, 10 << 10, 1<<20 - 200, 8 << 20, 10 << 10} {
		all = append(all, synchronizer.Record{
			Key: "account/a", Payload: bytesOf(size),
			Properties: []synchronizer.Property{{Name: "event", Value: "PutObject"}, {Name: "name", Value: string(bytes.Repeat([]byte("n"), 250))}},
		})
	}
	s.publish(t, q, synchronizer.Out, all...)
	got := s.read(t, s.consume(t, q), len(all))
	for i := range all {
		require.Len(t, got[i].Payload, len(all[i].Payload))
		require.True(t, bytes.Equal(all[i].Payload, got[i].Payload))
		require.Equal(t, asMap(all[i].Properties), asMap(got[i].Properties))
	}
	s.publish(t, q, synchronizer.Out, numbered("account/a", 0, 5)...)
}

func testMoreParts(t *testing.T, s *suite) {
	q := s.layered(t, s.Chunks.New(t), chunk.Options{MaxRecord: 64 << 10})
	s.carryLarge(t, q, 3<<19)
}

// carryLarge sends a large record among small ones in both directions.
func (s *suite) carryLarge(t *testing.T, q synchronizer.Queue, size int) {
	t.Helper()
	c := s.consume(t, q)
	tail, err := q.Tail(s.ctx(t))
	require.NoError(t, err)
	large := synchronizer.Record{Key: "account/cluster", Payload: bytesOf(size)}
	// A limit of bytes below the record must not keep it out.
	all := append(append(numbered("account/cluster", 0, 3), large), numbered("account/cluster", 3, 6)...)
	s.publish(t, q, synchronizer.Out, all...)
	s.publish(t, q, synchronizer.In, all...)
	for name, records := range map[string][]synchronizer.Record{"consumer": s.read(t, c, 7), "tail": s.readTail(t, tail, 7)} {
		require.True(t, bytes.Equal(large.Payload, records[3].Payload), name)
		requireOrder(t, append(append([]synchronizer.Record{}, records[:3]...), records[4:]...), 1, 6)
	}
}
