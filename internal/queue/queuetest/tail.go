// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

func testTailFanOut(t *testing.T, s *suite) {
	q := s.start(t)
	tails := make([]synchronizer.Tail, 3)
	for i := range tails {
		var err error
		tails[i], err = q.Tail(s.ctx(t))
		require.NoError(t, err)
	}
	s.publish(t, q, synchronizer.In, numbered("account/cluster", 0, 500)...)
	for _, tail := range tails {
		requireOrder(t, s.readTail(t, tail, 500), 1, 500)
	}
	// One that ends does not disturb the others.
	require.NoError(t, tails[0].Close())
	s.publish(t, q, synchronizer.In, numbered("account/other", 0, 10)...)
	for _, tail := range tails[1:] {
		requireOrder(t, s.readTail(t, tail, 10), 1, 10)
		require.NoError(t, tail.Close())
	}
}

func testTailNew(t *testing.T, s *suite) {
	q := s.start(t)
	for round := range 5 {
		s.publish(t, q, synchronizer.In, numbered("account/before", 0, 20)...)
		tail, err := q.Tail(s.ctx(t))
		require.NoError(t, err)
		// At once, without a pause: Tail has returned.
		s.publish(t, q, synchronizer.In, numbered("account/after", 0, 20)...)
		records := s.readTail(t, tail, 20)
		require.Equal(t, "account/after", records[0].Key, "round %d", round)
		requireOrder(t, records, 1, 20)
		require.NoError(t, tail.Close())
	}
}

// testSlowTail: a tail that does not read delays neither publishers nor others,
// and finds everything later.
func testSlowTail(t *testing.T, s *suite) {
	q := s.start(t)
	slow, err := q.Tail(s.ctx(t))
	require.NoError(t, err)
	fast, err := q.Tail(s.ctx(t))
	require.NoError(t, err)
	const rounds, each = 20, 250
	for i := range rounds {
		s.publish(t, q, synchronizer.In, numbered("account/cluster", i*each, (i+1)*each)...)
		records := s.readTail(t, fast, each)
		require.Equal(t, i*each, number(t, &records[0]))
	}
	requireOrder(t, s.readTail(t, slow, rounds*each), 1, rounds*each)
}

func testTailContext(t *testing.T, s *suite) {
	q := s.start(t)
	tail, err := q.Tail(s.ctx(t))
	require.NoError(t, err)
	next := func(ctx context.Context) error {
		_, err := tail.Next(ctx)
		return err
	}
	quiet(t, next)
	// It goes on afterwards, and lost nothing.
	s.publish(t, q, synchronizer.In, numbered("account/cluster", 0, 5)...)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, next(ended), context.Canceled)
	requireOrder(t, s.readTail(t, tail, 5), 1, 5)
}
