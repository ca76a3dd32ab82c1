// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var errTest = errors.New("run failed")

// TestPumpAccountsForEveryItem puts items from one goroutine while the operation
// is slow, fast or fails: each accepted item is run exactly once and in order,
// or returned by end; never are more bytes accepted than max, but for one item.
func TestPumpAccountsForEveryItem(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 50).Draw(t, "max")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 60), 1, 60).Draw(t, "sizes")
		failAt := rapid.IntRange(0, 80).Draw(t, "failAt")
		wait := rapid.Bool().Draw(t, "put")

		var (
			mu         sync.Mutex
			ran        []int
			held       atomic.Int64 // bytes accepted and not run
			concurrent atomic.Int64
		)
		p := newPump(limit, func(batch []int) error {
			if concurrent.Add(1) != 1 {
				t.Error("two runs at the same time")
			}
			defer concurrent.Add(-1)
			mu.Lock()
			defer mu.Unlock()
			for _, i := range batch {
				if i >= failAt {
					return errTest
				}
			}
			for _, i := range batch {
				held.Add(-int64(sizes[i]))
			}
			ran = append(ran, batch...)
			return nil
		})
		var accepted []int
		for i, size := range sizes {
			ok, err := true, error(nil)
			if wait {
				err = p.put(ctx, i, size)
				ok = err == nil
			} else {
				ok, err = p.offer(i, size)
			}
			if err != nil {
				require.ErrorIs(t, err, errTest)
			}
			if ok {
				accepted = append(accepted, i)
				if now := held.Add(int64(size)); failAt > len(sizes) && now > int64(max(limit, size)) {
					t.Errorf("%d bytes are held, the limit is %d", now, limit)
				}
			}
		}
		err := p.flush(ctx)
		failed, waiting := p.end()
		require.Equal(t, accepted, slices.Concat(ran, failed, waiting))
		if failAt > len(sizes) || len(failed) == 0 {
			require.NoError(t, err)
			require.Empty(t, waiting)
		} else {
			require.ErrorIs(t, err, errTest)
		}
		_, err = p.offer(0, 1)
		require.Error(t, err)
	})
}

// TestPumpBounds holds the operation and looks at what is let in meanwhile.
func TestPumpBounds(t *testing.T) {
	release := make(chan struct{})
	batches := make(chan []string, 10)
	p := newPump(10, func(batch []string) error {
		batches <- batch
		<-release
		return nil
	})
	offer := func(v string, size int) bool {
		ok, err := p.offer(v, size)
		require.NoError(t, err)
		return ok
	}
	require.True(t, offer("larger than the pump", 100))
	require.Equal(t, []string{"larger than the pump"}, <-batches)
	require.False(t, offer("no room", 1), "what is being worked on counts")
	release <- struct{}{}
	require.NoError(t, p.flush(t.Context()))

	require.True(t, offer("a", 4))
	require.Equal(t, []string{"a"}, <-batches)
	require.True(t, offer("b", 4))
	require.True(t, offer("c", 2))
	require.False(t, offer("d", 1))

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.put(ctx, "d", 1), context.DeadlineExceeded)
	require.ErrorIs(t, p.flush(ctx), context.DeadlineExceeded)

	put := make(chan error, 1)
	go func() { put <- p.put(t.Context(), "d", 1) }()
	release <- struct{}{} // a is done: room for d
	require.NoError(t, <-put)
	require.Equal(t, []string{"b", "c"}, (<-batches)[:2])
	close(release)
	require.NoError(t, p.flush(t.Context()))
	failed, waiting := p.end()
	require.Empty(t, failed)
	require.Empty(t, waiting)
}

// TestPumpEndWakes ends a pump that nobody works off: a waiting put returns, and
// end returns what was never run.
func TestPumpEndWakes(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	p := newPump(1, func([]int) error {
		close(started)
		<-release
		return nil
	})
	require.NoError(t, p.put(t.Context(), 1, 1))
	<-started
	put := make(chan error, 1)
	go func() { put <- p.put(context.WithoutCancel(t.Context()), 2, 1) }()
	ended := make(chan []int, 1)
	go func() {
		failed, waiting := p.end()
		ended <- slices.Concat(failed, waiting)
	}()
	require.ErrorIs(t, <-put, errEnded)
	select {
	case <-ended:
		require.Fail(t, "end does not wait for the batch that is being worked on")
	default:
	}
	close(release)
	require.Empty(t, <-ended)
}
