// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

func testAcknowledgedOnce(t *testing.T, s *suite) {
	q := s.open(t)
	s.publish(t, q, synchronizer.Out, numbered("account/a", 0, 700)...)
	c := s.consume(t, q)
	requireOrder(t, s.read(t, c, 700), 1, 700)
	quiet(t, nextOf(c))
	require.NoError(t, c.Close())
	closeQueue(t, q)

	// Nothing of it after the queue was opened again.
	q = s.start(t)
	s.publish(t, q, synchronizer.Out, numbered("account/b", 0, 5)...)
	records := s.read(t, s.consume(t, q), 5)
	require.Equal(t, "account/b", records[0].Key)
}

func testComesAgain(t *testing.T, s *suite) {
	q := s.open(t)
	s.publish(t, q, synchronizer.Out, numbered("account/a", 0, 300)...)
	c := s.consume(t, q)
	ctx := s.ctx(t)
	first, err := c.Next(ctx, 100, 1<<20)
	require.NoError(t, err)
	require.NoError(t, first.Ack(ctx))
	acknowledged := len(first.Records)
	require.LessOrEqual(t, acknowledged, 100)
	second, err := c.Next(ctx, 100, 1<<20)
	require.NoError(t, err)
	require.Equal(t, acknowledged, number(t, &second.Records[0]))
	closeQueue(t, q) // with an open consumer and a batch in the hands of the caller
	require.Error(t, second.Ack(t.Context()))

	q = s.start(t)
	s.publish(t, q, synchronizer.Out, numbered("account/a", 300, 310)...)
	records := s.read(t, s.consume(t, q), 310-acknowledged)
	for i := range records {
		require.Equal(t, acknowledged+i, number(t, &records[i]))
	}
}

func testAckCovers(t *testing.T, s *suite) {
	q := s.open(t)
	s.publish(t, q, synchronizer.Out, numbered("account/a", 0, 90)...)
	c := s.consume(t, q)
	ctx := s.ctx(t)
	seen := 0
	var last synchronizer.Batch
	for seen < 60 {
		var err error
		last, err = c.Next(ctx, 20, 1<<20)
		require.NoError(t, err)
		seen += len(last.Records)
	}
	require.NoError(t, last.Ack(ctx))
	require.NoError(t, c.Close())
	closeQueue(t, q)

	q = s.start(t)
	records := s.read(t, s.consume(t, q), 90-seen)
	require.Equal(t, seen, number(t, &records[0]))
}

func testLimits(t *testing.T, s *suite) {
	q := s.start(t)
	c := s.consume(t, q)
	ctx := s.ctx(t)
	s.publish(t, q, synchronizer.Out, numbered("account/a", 0, 100)...)
	var records []synchronizer.Record
	for len(records) < 50 {
		batch, err := c.Next(ctx, 7, 1<<20)
		require.NoError(t, err)
		require.LessOrEqual(t, len(batch.Records), 7)
		records = append(records, batch.Records...)
	}
	for len(records) < 100 { // one record is above the limit
		batch, err := c.Next(ctx, 7, 1)
		require.NoError(t, err)
		require.NotEmpty(t, batch.Records)
		records = append(records, batch.Records...)
	}
	requireOrder(t, records, 1, 100)

	big := synchronizer.Record{Key: "account/big", Payload: bytesOf(64 << 10)}
	s.publish(t, q, synchronizer.Out, big, big, big, big, big, big, big, big)
	for n := 0; n < 8; {
		batch, err := c.Next(ctx, 100, 256<<10)
		require.NoError(t, err)
		require.LessOrEqual(t, len(batch.Records), 5, "about 256 KiB")
		n += len(batch.Records)
	}
}

// testNoLinger: a record comes although the batch is not full.
func testNoLinger(t *testing.T, s *suite) {
	q := s.start(t)
	c := s.consume(t, q)
	for i := range 50 {
		s.publish(t, q, synchronizer.Out, numbered("account/a", i, i+1)...)
		batch, err := c.Next(s.ctx(t), 1000, 8<<20)
		require.NoError(t, err)
		require.Len(t, batch.Records, 1)
		require.Equal(t, i, number(t, &batch.Records[0]))
	}
}

func testRejoin(t *testing.T, s *suite) {
	q := s.start(t)
	s.publish(t, q, synchronizer.Out, numbered("account/a", 0, 50)...)
	c := s.consume(t, q)
	batch, err := c.Next(s.ctx(t), 10, 1<<20)
	require.NoError(t, err)
	require.NoError(t, batch.Ack(s.ctx(t)))
	seen := len(batch.Records)
	_, err = c.Next(s.ctx(t), 10, 1<<20)
	require.NoError(t, err)
	require.NoError(t, c.Close())

	c = s.consume(t, q)
	ctx := s.ctx(t)
	var order, want []int
	for i := seen; i < 50; i++ {
		want = append(want, i)
	}
	for !slices.Equal(order[max(0, len(order)-len(want)):], want) {
		batch, err = c.Next(ctx, 500, 4<<20)
		require.NoError(t, err, "after %v", order)
		for i := range batch.Records {
			order = append(order, number(t, &batch.Records[i]))
		}
		require.GreaterOrEqual(t, slices.Min(order), seen, "this was acknowledged")
	}
	require.NoError(t, batch.Ack(ctx))
	if !s.Rewinds {
		require.Equal(t, want, order)
	}
}

func testGroups(t *testing.T, s *suite) {
	q := s.start(t)
	a, err := q.Consume(s.ctx(t), "group a.b")
	require.NoError(t, err)
	b, err := q.Consume(s.ctx(t), "group/b")
	require.NoError(t, err)
	s.publish(t, q, synchronizer.Out, numbered("account/a", 0, 30)...)
	requireOrder(t, s.read(t, a, 30), 1, 30)
	requireOrder(t, s.read(t, b, 30), 1, 30)
}

func testConsumeContext(t *testing.T, s *suite) {
	q := s.start(t)
	c := s.consume(t, q)
	quiet(t, nextOf(c))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, nextOf(c)(ended), context.Canceled)
	_, err := q.Consume(ended, "another")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, q.Publish(ended, synchronizer.Out, numbered("account/x", 0, 1)), context.Canceled)
	s.publish(t, q, synchronizer.Out, numbered("account/a", 0, 5)...)
	var records []synchronizer.Record
	for len(records) < 5 {
		batch, err := c.Next(s.ctx(t), 10, 1<<20)
		require.NoError(t, err)
		for i := range batch.Records {
			// A publish with an ended context may or may not have arrived.
			if batch.Records[i].Key == "account/a" {
				records = append(records, batch.Records[i])
			}
		}
	}
	requireOrder(t, records, 1, 5)
}
