// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// follow reads a feed to its end.
func follow(t tester, ctx context.Context, b Backend, account string, after int64, limit int) []synchronizer.Change {
	t.Helper()
	var all []synchronizer.Change
	for {
		changes, err := b.Changes(ctx, account, after, limit)
		require.NoError(t, err)
		if len(changes) == 0 {
			return all
		}
		for i := range changes {
			require.Greater(t, changes[i].Position, after)
			after = changes[i].Position
		}
		all = append(all, changes...)
	}
}

// feed: one entry per change, in order, for the account only.
func feed(t *testing.T, b Backend) {
	ctx := t.Context()
	position, err := b.Position(ctx, "acme")
	require.NoError(t, err)
	require.Zero(t, position)
	require.Empty(t, follow(t, ctx, b, "acme", 0, 0))

	other := synchronizer.ClusterID{Account: "other", Cluster: "prod"}
	first := live(key(prod, pods, "n", "a\x00b"), 1, nil)
	gone := tombstone(first.Key, 3)
	write(t, ctx, b, first)
	write(t, ctx, b, live(key(other, pods, "n", "x"), 2, nil))
	write(t, ctx, b, gone)
	confirmed := live(key(other, pods, "n", "x"), 4, nil)
	confirmed.Touched = true
	write(t, ctx, b, confirmed)
	write(t, ctx, b, live(key(prod, deployments, "", "y"), 5, nil))

	want := []synchronizer.Change{
		{Position: 1, Op: synchronizer.ChangePut, Key: first.Key, Order: first.Order, At: noon},
		{Position: 2, Op: synchronizer.ChangeDelete, Key: first.Key, Order: gone.Order, At: noon},
		{Position: 3, Op: synchronizer.ChangePut, Key: key(prod, deployments, "", "y"), Order: synchronizer.Order{Generation: 1, Seq: 5}, At: noon},
	}
	require.Equal(t, want, follow(t, ctx, b, "acme", 0, 0))
	require.Equal(t, want, follow(t, ctx, b, "acme", 0, 1))
	require.Equal(t, want[2:], follow(t, ctx, b, "acme", 2, 0))
	require.Len(t, follow(t, ctx, b, "other", 0, 0), 1)
	require.Empty(t, follow(t, ctx, b, "nobody", 0, 0))
	position, err = b.Position(ctx, "acme")
	require.NoError(t, err)
	require.Equal(t, int64(3), position)

	boom := errors.New("boom")
	require.ErrorIs(t, b.Update(ctx, func(tx synchronizer.Tx) error {
		require.NoError(t, put(ctx, tx, []synchronizer.Row{live(key(prod, pods, "n", "z"), 6, nil)}))
		return boom
	}), boom)
	require.Empty(t, follow(t, ctx, b, "acme", 3, 0), "what was rolled back is no change")
	write(t, ctx, b, live(key(prod, pods, "n", "z"), 6, nil))
	require.Len(t, follow(t, ctx, b, "acme", 3, 0), 1)

	_, err = b.Changes(ctx, "", 0, 0)
	require.ErrorIs(t, err, synchronizer.ErrInvalid, "never those of everybody")
	_, err = b.Position(ctx, "")
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	_, err = b.Changes(ctx, "acme", 0, 10_001)
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	_, err = b.Changes(ctx, "acme", 100, 0)
	require.ErrorIs(t, err, synchronizer.ErrGone, "a place that was never given, as after a restore")
}

// feedSkipsNothing: a follower reads every change exactly once, although many
// write at once and end in any order.
func feedSkipsNothing(t *testing.T, b Backend) {
	ctx := t.Context()
	const writers, rounds = 6, 25
	var wait sync.WaitGroup
	errs := make(chan error, writers)
	for w := range writers {
		wait.Go(func() {
			id := synchronizer.ClusterID{Account: "acme", Cluster: fmt.Sprintf("c%d", w%3)}
			for round := range rounds {
				var rows []synchronizer.Row
				for i := range 1 + (w+round)%4 {
					rows = append(rows, live(key(id, pods, "n", fmt.Sprintf("w%d-%d", w, i)), uint64(round+1), nil))
				}
				if err := b.Update(ctx, func(tx synchronizer.Tx) error { return put(ctx, tx, rows) }); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wait.Wait()
		close(done)
	}()
	seen := map[string]int{}
	after, last := int64(0), false
	for {
		changes, err := b.Changes(ctx, "acme", after, 7)
		require.NoError(t, err)
		for _, c := range changes {
			require.Greater(t, c.Position, after)
			after = c.Position
			seen[fmt.Sprintf("%s@%d", c.Key, c.Order.Seq)]++
		}
		if len(changes) > 0 {
			continue
		}
		if last {
			break
		}
		select {
		case <-done:
			last = true // whatever there is, is there now
		default:
		}
	}
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	want := 0
	for w := range writers {
		for round := range rounds {
			want += 1 + (w+round)%4
		}
	}
	require.Len(t, seen, want)
	for name, times := range seen {
		require.Equal(t, 1, times, name)
	}
}

// FeedLength checks that a feed keeps the latest changes only. Open gives a store
// that keeps length of them.
func FeedLength(t *testing.T, length int, open func(t *testing.T) Backend) {
	ctx := t.Context()
	b := open(t)
	for i := range 2 * length {
		write(t, ctx, b, live(key(prod, pods, "n", "x"), uint64(i+1), nil))
	}
	_, err := b.Changes(ctx, "acme", 0, 0)
	require.ErrorIs(t, err, synchronizer.ErrGone)
	position, err := b.Position(ctx, "acme")
	require.NoError(t, err)
	require.Equal(t, int64(2*length), position)
	changes := follow(t, ctx, b, "acme", int64(length), 0)
	require.Len(t, changes, length)
	require.Equal(t, uint64(length+1), changes[0].Order.Seq)
	_, err = b.Changes(ctx, "acme", int64(length)-1, 0)
	require.ErrorIs(t, err, synchronizer.ErrGone)
	requireSound(t, b)
}
