// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
)

func connectionOf(account, cluster string) *connection {
	return &connection{hello: synchronizer.Hello{ClusterID: synchronizer.ClusterID{Account: account, Cluster: cluster}}}
}

func TestRegistryKeepsTheNewest(t *testing.T) {
	r, now := newRegistry(), time.Unix(1000, 0)
	older, newer, other := connectionOf("a", "c"), connectionOf("a", "c"), connectionOf("b", "c")
	require.Nil(t, r.find(older.id()))
	add := func(c *connection, at time.Time) []*connection {
		leave, err := r.enter(t.Context(), c.id())
		require.NoError(t, err)
		defer leave()
		replaced, _ := r.add(c, at)
		return replaced
	}
	require.Empty(t, add(older, now))
	require.Empty(t, add(other, now), "another account with the same cluster name is another cluster")
	require.Same(t, older, r.find(older.id()))
	require.Equal(t, []*connection{older}, add(newer, now))
	require.Same(t, newer, r.find(older.id()))
	require.Same(t, other, r.find(other.id()))
	require.Equal(t, 2, r.count())

	require.False(t, r.remove(older), "the end of an older connection changes nothing")
	require.Same(t, newer, r.find(newer.id()))
	require.True(t, r.remove(newer))
	require.Nil(t, r.find(newer.id()))
	require.False(t, r.remove(newer))
	require.Equal(t, 1, r.count())
	require.Len(t, r.clusters, 1, "nothing is remembered of a cluster without a connection")

	// What is left of a replaced connection when the newest ends is not connected;
	// who comes then waits for both.
	add(older, now)
	add(newer, now)
	require.True(t, r.remove(newer))
	require.Nil(t, r.find(newer.id()))
	require.Equal(t, 1, r.count())
	require.Equal(t, []*connection{older}, add(newer, now))
}

// Two clients of one cluster that connect at the same time are introduced one
// after the other, so that the newest here has the higher generation.
func TestIntroductionsTakeTurns(t *testing.T) {
	r := newRegistry()
	id := synchronizer.ClusterID{Account: "a", Cluster: "c"}
	leave, err := r.enter(t.Context(), id)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan error, 1)
	go func() {
		_, err := r.enter(ctx, id)
		refused <- err
	}()
	other, err := r.enter(t.Context(), synchronizer.ClusterID{Account: "b", Cluster: "c"})
	require.NoError(t, err, "another cluster does not wait")
	other()
	cancel()
	require.ErrorIs(t, <-refused, context.Canceled)
	entered := make(chan struct{})
	go func() {
		leave, err := r.enter(t.Context(), id)
		if err == nil {
			leave()
		}
		close(entered)
	}()
	leave()
	<-entered
	require.Empty(t, r.clusters)
}

// TestRegistryCountsReplacements: only those within the window, of a cluster
// that was connected all the time.
func TestRegistryCountsReplacements(t *testing.T) {
	r, now := newRegistry(), time.Unix(1000, 0)
	var last *connection
	add := func(after time.Duration) int {
		now = now.Add(after)
		last = connectionOf("a", "c")
		leave, err := r.enter(t.Context(), last.id())
		require.NoError(t, err)
		defer leave()
		_, replacements := r.add(last, now)
		return replacements
	}
	require.Equal(t, 0, add(0))
	for i := 1; i <= maxReplacements+1; i++ {
		require.Equal(t, i, add(time.Second))
	}
	require.Equal(t, 1, add(replaceWindow), "the others are too old")
	require.True(t, r.remove(last))
	require.Equal(t, 0, add(time.Second), "a client that comes back replaces nobody")
	for range 3 * mostRemembered {
		require.LessOrEqual(t, add(0), mostRemembered)
	}
}

// TestLabelsAreBounded: whoever connects under ever new names makes no endless
// number of series.
func TestLabelsAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg, func() int { return 0 })
	for i := range mostClusters + 10 {
		m.disconnected(synchronizer.ClusterID{Account: "a", Cluster: time.Duration(i).String()})
	}
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "synchronizer_client_disconnection_count" {
			require.Len(t, f.GetMetric(), mostClusters+1)
			return
		}
	}
	require.Fail(t, "metric is missing")
}
