// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// askLimit is how long an answer may take that a server asks for.
const askLimit = 5 * time.Second

// testReachable: a queue knows whether its broker is there, and names it if not.
// The queue itself goes on.
func testReachable(t *testing.T, s *suite) {
	s.Patience *= 6 // brokers in Java take their time
	broker := s.Broker(t)
	q := broker.Open(t)
	t.Cleanup(func() { closeQueue(t, q) }) // twice is no error
	reachable, ok := q.(synchronizer.Reachable)
	require.True(t, ok, "the server asks %T", q)
	ask := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), askLimit)
		defer cancel()
		return reachable.Reachable(ctx)
	}
	// until asks again until the answer is right.
	until := func(right func(error) bool, limit time.Duration) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		for {
			err := ask()
			if right(err) {
				return err
			}
			select {
			case <-ctx.Done():
				require.FailNow(t, "the answer stays wrong", "%v", err)
			case <-time.After(tick):
			}
		}
	}
	back := func() {
		t.Helper()
		_ = until(func(err error) bool { return err == nil }, s.Patience)
		s.publish(t, q, synchronizer.In, numbered("account/a", 0, 1)...)
	}
	back()
	broker.Stop(t)
	err := until(func(err error) bool { return err != nil }, 4*askLimit)
	t.Log(err)
	require.NotErrorIs(t, err, synchronizer.ErrClosed, "it is not for good")
	require.ErrorContains(t, err, "127.0.0.1:", "it names the broker")
	require.Error(t, ask(), "it stays away")
	broker.Start(t)
	back()
	closeQueue(t, q)
	require.ErrorIs(t, ask(), synchronizer.ErrClosed)
}
