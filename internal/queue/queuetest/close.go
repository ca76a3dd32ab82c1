// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// testClosePending: what was accepted is there after Close, whether it was being
// published, unread or in the hands of a consumer.
func testClosePending(t *testing.T, s *suite) {
	q := s.open(t)
	c := s.consume(t, q)
	s.publish(t, q, synchronizer.Out, numbered("account/a", 0, 100)...)
	_, err := c.Next(s.ctx(t), 10, 1<<20)
	require.NoError(t, err)
	published := make(chan error, 1)
	go func() { published <- q.Publish(t.Context(), synchronizer.Out, numbered("account/b", 0, 2000)) }()
	closeQueue(t, q)
	accepted := 0
	if err := <-published; err == nil {
		accepted = 2000
	} else {
		require.ErrorIs(t, err, synchronizer.ErrClosed)
	}

	q = s.start(t)
	s.publish(t, q, synchronizer.Out, numbered("account/last", 0, 1)...)
	c = s.consume(t, q)
	// Keys have no order among each other.
	p, ctx := newProgress(), s.ctx(t)
	for p.next["account/last"] < 1 || p.next["account/a"] < 100 || p.next["account/b"] < accepted {
		batch, err := c.Next(ctx, 500, 1<<20)
		require.NoError(t, err, "%v came", &p.next)
		require.NoError(t, p.add(batch.Records))
	}
}

func testCloseBlocked(t *testing.T, s *suite) {
	q := s.open(t)
	c := s.consume(t, q)
	tail, err := q.Tail(s.ctx(t))
	require.NoError(t, err)
	errs := make(chan error, 2)
	go func() {
		_, err := c.Next(t.Context(), 10, 1<<20)
		errs <- err
	}()
	go func() {
		_, err := tail.Next(t.Context())
		errs <- err
	}()
	closeQueue(t, q)
	require.ErrorIs(t, <-errs, synchronizer.ErrClosed)
	require.ErrorIs(t, <-errs, synchronizer.ErrClosed)
	require.NoError(t, c.Close())
	require.NoError(t, tail.Close())
}

func testClosed(t *testing.T, s *suite) {
	q := s.open(t)
	c := s.consume(t, q)
	tail, err := q.Tail(s.ctx(t))
	require.NoError(t, err)
	closeQueue(t, q)
	closeQueue(t, q) // twice is no error
	ctx := s.ctx(t)
	require.ErrorIs(t, q.Publish(ctx, synchronizer.Out, numbered("account/a", 0, 1)), synchronizer.ErrClosed)
	_, err = q.Tail(ctx)
	require.ErrorIs(t, err, synchronizer.ErrClosed)
	_, err = q.Consume(ctx, group)
	require.ErrorIs(t, err, synchronizer.ErrClosed)
	_, err = c.Next(ctx, 1, 1)
	require.ErrorIs(t, err, synchronizer.ErrClosed)
	_, err = tail.Next(ctx)
	require.ErrorIs(t, err, synchronizer.ErrClosed)
}
