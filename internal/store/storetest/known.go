// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// listed reads what is known of a kind, as "namespace/name@resourceVersion".
func listed(t *testing.T, b Backend, of synchronizer.ClusterKind) []string {
	t.Helper()
	result := []string{}
	require.NoError(t, b.Known(t.Context(), of, func(row *synchronizer.Row) error {
		require.Equal(t, of.ClusterID, row.Key.ClusterID)
		require.Equal(t, of.Kind, row.Key.Kind)
		require.Equal(t, fmt.Sprintf("%064s", row.ResourceVersion), row.Checksum)
		result = append(result, row.Key.Namespace+"/"+row.Key.Name+"@"+row.ResourceVersion)
		return nil
	}))
	return result
}

// known: every live object of exactly that kind and cluster, in order.
func known(t *testing.T, b Backend) {
	ctx := t.Context()
	of := synchronizer.ClusterKind{ClusterID: prod, Kind: pods}
	require.Empty(t, listed(t, b, of), "nothing is known of the cluster")
	other := synchronizer.ClusterID{Account: "other", Cluster: prod.Cluster}
	write(t, ctx, b,
		live(key(prod, pods, "b", "x"), 3, nil), live(key(prod, pods, "", "z"), 1, nil), live(key(prod, pods, "b", "a"), 2, nil),
		live(key(prod, deployments, "b", "d"), 9, nil), live(key(other, pods, "b", "o"), 9, nil),
		tombstone(key(prod, pods, "b", "gone"), 4))
	require.Equal(t, []string{"/z@1", "b/a@2", "b/x@3"}, listed(t, b, of))
	require.Equal(t, []string{"b/o@9"}, listed(t, b, synchronizer.ClusterKind{ClusterID: other, Kind: pods}))
	require.Empty(t, listed(t, b, synchronizer.ClusterKind{ClusterID: prod, Kind: synchronizer.Kind{Version: "v2", Resource: "pods"}}))

	write(t, ctx, b, tombstone(key(prod, pods, "b", "x"), 5), live(key(prod, pods, "b", "gone"), 6, nil))
	require.Equal(t, []string{"/z@1", "b/a@2", "b/gone@6"}, listed(t, b, of), "what was written just before is in it")

	calls, stop := 0, errors.New("enough")
	err := b.Known(ctx, of, func(*synchronizer.Row) error { calls++; return stop })
	require.Equal(t, stop, err)
	require.Equal(t, 1, calls)
	for _, id := range []synchronizer.ClusterID{{}, {Account: "acme"}, {Cluster: "prod"}} {
		require.ErrorIs(t, b.Known(ctx, synchronizer.ClusterKind{ClusterID: id, Kind: pods}, nil), synchronizer.ErrInvalid, "never those of everybody")
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, b.Known(ended, of, func(*synchronizer.Row) error { return nil }), context.Canceled)
}

// knownWhileWriting: what is written during the call is not in it, and is not
// held up.
func knownWhileWriting(t *testing.T, b Backend) {
	ctx := t.Context()
	of := synchronizer.ClusterKind{ClusterID: prod, Kind: pods}
	for i := range 10 {
		write(t, ctx, b, live(key(prod, pods, "n", fmt.Sprintf("old-%d", i)), 1, nil))
	}
	seen := 0
	require.NoError(t, b.Known(ctx, of, func(row *synchronizer.Row) error {
		if seen == 0 {
			write(t, ctx, b, live(key(prod, pods, "n", "old-9"), 7, nil), live(key(prod, pods, "n", "zz-new"), 7, nil),
				tombstone(key(prod, pods, "n", "old-5"), 7))
		}
		require.Equal(t, fmt.Sprintf("old-%d", seen), row.Key.Name)
		require.Equal(t, "1", row.ResourceVersion)
		seen++
		return nil
	}))
	require.Equal(t, 10, seen)
	require.Len(t, listed(t, b, of), 10)
}

// kindsSeen: a kind without objects is known once a client was seen to have it.
func kindsSeen(t *testing.T, b Backend) {
	ctx := t.Context()
	see := func(seen ...synchronizer.ClusterKind) error {
		return b.Update(ctx, func(tx synchronizer.Tx) error { return tx.SeeKinds(ctx, seen) })
	}
	kind := synchronizer.ClusterKind{ClusterID: prod, Kind: deployments}
	require.NoError(t, see(kind, kind))
	require.NoError(t, see(kind))
	require.NoError(t, see())
	clusters, err := b.Clusters(ctx, prod)
	require.NoError(t, err)
	require.Len(t, clusters, 1)
	require.Equal(t, []synchronizer.KindStatus{{Kind: deployments}}, clusters[0].Kinds)
	require.Empty(t, listed(t, b, kind))

	write(t, ctx, b, live(key(prod, deployments, "n", "web"), 1, nil))
	require.NoError(t, see(kind))
	require.Equal(t, []string{"n/web@1"}, listed(t, b, kind))
	clusters, err = b.Clusters(ctx, prod)
	require.NoError(t, err)
	require.Equal(t, int64(1), clusters[0].Kinds[0].Objects)
	require.ErrorIs(t, see(synchronizer.ClusterKind{ClusterID: prod}), synchronizer.ErrInvalid)
	require.ErrorIs(t, see(synchronizer.ClusterKind{Kind: pods}), synchronizer.ErrInvalid)
}
