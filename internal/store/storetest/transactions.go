// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

func rollback(t *testing.T, b Backend) {
	ctx := t.Context()
	boom := errors.New("boom")
	for range 2 { // what was learnt in a transaction that failed is forgotten
		err := b.Update(ctx, func(tx synchronizer.Tx) error {
			_, err := tx.Generations(ctx, []synchronizer.ClusterSource{{ClusterID: prod, Source: "s"}})
			require.NoError(t, err)
			require.NoError(t, put(ctx, tx, []synchronizer.Row{live(key(prod, pods, "n", "n"), 1, nil)}))
			return boom
		})
		require.ErrorIs(t, err, boom)
	}
	require.Empty(t, readAll(t, ctx, b, synchronizer.ObjectQuery{Deleted: true}))
	write(t, ctx, b, live(key(prod, pods, "n", "n"), 1, nil))
	require.Equal(t, []string{"n"}, names(t, ctx, b, synchronizer.ObjectQuery{}))
}

func panics(t *testing.T, b Backend) {
	ctx := t.Context()
	var escaped synchronizer.Tx
	require.PanicsWithValue(t, "boom", func() {
		_ = b.Update(ctx, func(tx synchronizer.Tx) error {
			escaped = tx
			require.NoError(t, put(ctx, tx, []synchronizer.Row{live(key(prod, pods, "n", "n"), 1, nil)}))
			panic("boom")
		})
	})
	require.Error(t, escaped.Write(ctx, []synchronizer.Row{live(key(prod, pods, "n", "late"), 1, nil)}), "a transaction after its end")
	require.Empty(t, readAll(t, ctx, b, synchronizer.ObjectQuery{}))
	write(t, ctx, b, live(key(prod, pods, "n", "n"), 1, nil))
}

func cancelled(t *testing.T, b Backend) {
	before, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Update(before, func(synchronizer.Tx) error {
		t.Error("fn ran")
		return nil
	}), context.Canceled)

	during, cancel := context.WithCancel(t.Context())
	err := b.Update(during, func(tx synchronizer.Tx) error {
		if err := put(during, tx, []synchronizer.Row{live(key(prod, pods, "n", "n"), 1, nil)}); err != nil {
			return err
		}
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, synchronizer.ErrInvalid)

	between, cancel := context.WithCancel(t.Context())
	err = b.Update(between, func(tx synchronizer.Tx) error {
		cancel()
		return put(between, tx, []synchronizer.Row{live(key(prod, pods, "n", "n"), 1, nil)})
	})
	require.ErrorIs(t, err, context.Canceled)

	ctx := t.Context()
	require.Empty(t, readAll(t, ctx, b, synchronizer.ObjectQuery{Deleted: true}))
	write(t, ctx, b, live(key(prod, pods, "n", "n"), 1, nil))
	_, err = b.Objects(between, synchronizer.ObjectQuery{})
	require.ErrorIs(t, err, context.Canceled)
}

// noLostUpdate adds up in one row from several goroutines.
func noLostUpdate(t *testing.T, b Backend) {
	ctx := t.Context()
	const workers, rounds = 6, 20
	k := key(prod, pods, "default", "counter")
	write(t, ctx, b, live(k, 0, nil))
	var wait sync.WaitGroup
	errs := make(chan error, workers*rounds)
	for range workers {
		wait.Go(func() {
			for range rounds {
				errs <- b.Update(ctx, func(tx synchronizer.Tx) error {
					rows, err := tx.Rows(ctx, []synchronizer.ObjectKey{k}, []bool{false})
					if err != nil {
						return err
					}
					return tx.Write(ctx, []synchronizer.Row{live(k, rows[0].Order.Seq+1, nil)})
				})
			}
		})
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	row, err := b.Object(ctx, k)
	require.NoError(t, err)
	require.Equal(t, uint64(workers*rounds), row.Order.Seq)
}

func closeWaits(t *testing.T, b Backend) {
	ctx := t.Context()
	inside, goOn := make(chan struct{}), make(chan struct{})
	updated, done := make(chan error, 1), make(chan error, 1)
	go func() {
		updated <- b.Update(ctx, func(tx synchronizer.Tx) error {
			close(inside)
			<-goOn
			return put(ctx, tx, []synchronizer.Row{live(key(prod, pods, "n", "n"), 1, nil)})
		})
	}()
	<-inside
	go func() { done <- b.Close() }()
	select {
	case <-done:
		t.Error("closed during a transaction")
	default:
	}
	close(goOn)
	require.NoError(t, <-updated)
	require.NoError(t, <-done)
}

func closed(t *testing.T, b Backend) {
	ctx := t.Context()
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.Update(ctx, func(synchronizer.Tx) error { return nil }), synchronizer.ErrClosed)
	_, err := b.Objects(ctx, synchronizer.ObjectQuery{})
	require.ErrorIs(t, err, synchronizer.ErrClosed)
	_, err = b.Clusters(ctx, synchronizer.ClusterID{})
	require.ErrorIs(t, err, synchronizer.ErrClosed)
	require.NoError(t, b.Close(), "closing twice")
}

func reopen(t *testing.T, b Backend) {
	ctx := t.Context()
	rows := []synchronizer.Row{
		live(key(prod, pods, "a", "1"), 1, map[string]string{"app": "x"}),
		tombstone(key(prod, pods, "a", "2"), 2),
	}
	write(t, ctx, b, rows...)
	source := []synchronizer.ClusterSource{{ClusterID: prod, Source: "s"}}
	first := generationsOf(t, b, source...)
	require.NoError(t, b.AddAccessKey(ctx, [32]byte{1}, synchronizer.AccessKey{Account: "acme", Created: noon}))

	b = b.Reopen(t)
	for _, row := range rows {
		got, err := b.Object(ctx, row.Key)
		require.NoError(t, err)
		require.Equal(t, row, *got)
	}
	require.Equal(t, first, generationsOf(t, b, source...))
	_, err := b.AccessKey(ctx, [32]byte{1})
	require.NoError(t, err)
	write(t, ctx, b, live(key(prod, pods, "a", "2"), 3, nil), live(key(prod, pods, "a", "3"), 3, nil))
	require.Equal(t, []string{"1", "2", "3"}, names(t, ctx, b, synchronizer.ObjectQuery{}))
	require.Equal(t, []string{"1"}, names(t, ctx, b, synchronizer.ObjectQuery{Labels: []synchronizer.LabelRequirement{in("app", "x")}}))
}
