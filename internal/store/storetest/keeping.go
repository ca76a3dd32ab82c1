// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

func floorsOf(t *testing.T, b Backend, kinds ...synchronizer.ClusterKind) (floors []synchronizer.Order) {
	t.Helper()
	require.NoError(t, b.Update(t.Context(), func(tx synchronizer.Tx) (err error) {
		floors, err = tx.Floors(t.Context(), kinds)
		return err
	}))
	return floors
}

// purge: old tombstones go, and the floor of their kind tells that they were there.
func purge(t *testing.T, b Backend) {
	ctx := t.Context()
	ofPods, ofDeployments := synchronizer.ClusterKind{ClusterID: prod, Kind: pods}, synchronizer.ClusterKind{ClusterID: prod, Kind: deployments}
	require.Equal(t, make([]synchronizer.Order, 2), floorsOf(t, b, ofPods, ofDeployments), "nothing is known")
	dead := func(kind synchronizer.Kind, name string, generation int64, seq uint64, at time.Duration) synchronizer.Row {
		row := tombstone(key(prod, kind, "n", name), seq)
		row.Order.Generation, row.DeletedAt = generation, noon.Add(at)
		return row
	}
	write(t, ctx, b, live(key(prod, pods, "n", "alive"), 99, nil), dead(pods, "old", 1, 7, 0), dead(pods, "older", 2, math.MaxUint64, 0),
		dead(pods, "oldest", 2, 5, 0), dead(pods, "young", 3, 1, time.Hour), dead(deployments, "young", 5, 1, time.Hour))
	require.Equal(t, make([]synchronizer.Order, 2), floorsOf(t, b, ofPods, ofDeployments))

	n, err := b.PurgeTombstones(ctx, noon.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, int64(3), n)
	require.Equal(t, []synchronizer.Order{{Generation: 2, Seq: math.MaxUint64}, {}}, floorsOf(t, b, ofPods, ofDeployments))
	require.Equal(t, []string{"alive", "young", "young"}, names(t, ctx, b, synchronizer.ObjectQuery{Deleted: true}))
	_, err = b.Object(ctx, key(prod, pods, "n", "old"))
	require.ErrorIs(t, err, synchronizer.ErrNotFound)

	write(t, ctx, b, dead(pods, "later", 1, 1, 0))
	n, err = b.PurgeTombstones(ctx, noon.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	require.Equal(t, []synchronizer.Order{{Generation: 2, Seq: math.MaxUint64}}, floorsOf(t, b, ofPods), "a floor never sinks")

	many := make([]synchronizer.Row, 2500)
	for i := range many {
		many[i] = dead(pods, fmt.Sprintf("m%d", i), 9, uint64(i+1), 0)
	}
	write(t, ctx, b, many...)
	n, err = b.PurgeTombstones(ctx, noon.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, int64(2500), n)
	require.Equal(t, []synchronizer.Order{{Generation: 9, Seq: 2500}}, floorsOf(t, b, ofPods))
	write(t, ctx, b, live(key(prod, pods, "n", "old"), 100, nil))
	require.Equal(t, int64(2), numberOf(t, b, prod, pods))
	requireSound(t, b)
}

func numberOf(t *testing.T, b Backend, id synchronizer.ClusterID, kind synchronizer.Kind) int64 {
	t.Helper()
	clusters, err := b.Clusters(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, clusters, 1)
	for _, k := range clusters[0].Kinds {
		if k.Kind == kind {
			return k.Objects
		}
	}
	return -1
}

// pruneSources: sources that are long silent are forgotten, generations are not.
func pruneSources(t *testing.T, b Backend) {
	ctx := t.Context()
	other := synchronizer.ClusterID{Account: "other", Cluster: prod.Cluster}
	source := func(id synchronizer.ClusterID, name string) synchronizer.ClusterSource {
		return synchronizer.ClusterSource{ClusterID: id, Source: name}
	}
	generationsOf(t, b, source(prod, "a"), source(prod, "b"), source(prod, "c"), source(other, "a"))
	n, err := b.PruneSources(ctx, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.Zero(t, n, "they have just spoken")
	n, err = b.PruneSources(ctx, time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, int64(2), n, "all but the newest of each cluster")
	require.Equal(t, []int64{3, 1, 4}, generationsOf(t, b, source(prod, "c"), source(other, "a"), source(prod, "new")))
}

func unseen(t *testing.T, b Backend) {
	ctx := t.Context()
	see := func(id synchronizer.ClusterID, at time.Time) {
		c := synchronizer.ClientSeen{At: at}
		c.ClusterID = id
		require.NoError(t, b.Update(ctx, func(tx synchronizer.Tx) error { return tx.SeeClients(ctx, []synchronizer.ClientSeen{c}) }))
	}
	stage := synchronizer.ClusterID{Account: "acme", Cluster: "stage"}
	other := synchronizer.ClusterID{Account: "other", Cluster: "prod"}
	see(prod, noon)
	see(stage, noon.Add(time.Hour))
	see(other, noon.Add(-time.Hour))
	write(t, ctx, b, live(key(synchronizer.ClusterID{Account: "acme", Cluster: "never-connected"}, pods, "n", "x"), 1, nil))
	got, err := b.Unseen(ctx, noon.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, []synchronizer.ClusterID{prod, other}, got)
	got, err = b.Unseen(ctx, noon.Add(-24*time.Hour))
	require.NoError(t, err)
	require.Empty(t, got)

	// Servers may report a connection when it is made, and never again. Who speaks is
	// there.
	generationsOf(t, b, synchronizer.ClusterSource{ClusterID: prod, Source: "speaks"})
	got, err = b.Unseen(ctx, noon.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, []synchronizer.ClusterID{other}, got)
	got, err = b.Unseen(ctx, time.Now().Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, []synchronizer.ClusterID{prod, stage, other}, got)
}

// fill gives two clusters of two accounts everything that a cluster can have.
func fill(t *testing.T, ctx context.Context, b Backend, ids ...synchronizer.ClusterID) {
	t.Helper()
	for _, id := range ids {
		generationsOf(t, b, synchronizer.ClusterSource{ClusterID: id, Source: "old"})
		write(t, ctx, b, live(key(id, pods, "n", "web"), 1, map[string]string{"app": "web"}), live(key(id, deployments, "n", "web"), 1, nil),
			tombstone(key(id, pods, "n", "gone"), 2))
		appendEvents(t, b, event(key(id, pods, "n", "e"), 1, 0))
		c := synchronizer.ClientSeen{At: noon, ConnectedClient: synchronizer.ConnectedClient{ConnectionID: "c", ConnectionTime: noon}}
		c.ClusterID = id
		require.NoError(t, b.Update(ctx, func(tx synchronizer.Tx) error { return tx.SeeClients(ctx, []synchronizer.ClientSeen{c}) }))
	}
}

// deleteCluster: everything of it is gone, nothing of another, and late records know.
func deleteCluster(t *testing.T, b Backend) {
	ctx := t.Context()
	stage := synchronizer.ClusterID{Account: "acme", Cluster: "stage"}
	other := synchronizer.ClusterID{Account: "other", Cluster: "prod"}
	fill(t, ctx, b, prod, stage, other)
	require.NoError(t, b.DeleteCluster(ctx, prod))

	clusters, err := b.Clusters(ctx, synchronizer.ClusterID{})
	require.NoError(t, err)
	require.Len(t, clusters, 2)
	require.Equal(t, stage, clusters[0].ClusterID)
	require.Equal(t, other, clusters[1].ClusterID)
	require.Empty(t, readAll(t, ctx, b, synchronizer.ObjectQuery{Account: "acme", Clusters: []string{"prod"}, Deleted: true}))
	require.Len(t, readAll(t, ctx, b, synchronizer.ObjectQuery{Deleted: true}), 6)
	require.Len(t, readAll(t, ctx, b, synchronizer.ObjectQuery{Search: "web"}), 4)
	require.Len(t, readAll(t, ctx, b, synchronizer.ObjectQuery{Labels: []synchronizer.LabelRequirement{in("app", "web")}}), 2)
	require.Len(t, readEvents(t, b, synchronizer.EventQuery{Account: "acme"}), 1)
	require.Len(t, readEvents(t, b, synchronizer.EventQuery{Account: "other"}), 1)
	for kind, want := range map[synchronizer.ClusterKind]int{
		{ClusterID: prod, Kind: pods}: 0, {ClusterID: stage, Kind: pods}: 1, {ClusterID: other, Kind: pods}: 1,
	} {
		sets, err := b.Sets(ctx, kind)
		require.NoError(t, err)
		require.Len(t, sets, want)
	}
	changes := follow(t, ctx, b, "acme", 0, 0)
	require.Len(t, changes, 4)
	last := changes[3]
	require.Equal(t, synchronizer.ChangeClusterDeleted, last.Op)
	require.Equal(t, synchronizer.ObjectKey{ClusterID: prod}, last.Key)
	require.Len(t, follow(t, ctx, b, "other", 0, 0), 3)
	requireSound(t, b)

	// A source of before is as old as it was; what it says is below every floor.
	old := generationsOf(t, b, synchronizer.ClusterSource{ClusterID: prod, Source: "old"})[0]
	require.Equal(t, int64(1), old)
	late := synchronizer.Order{Generation: old, Seq: math.MaxUint64}
	nodes := synchronizer.Kind{Version: "v1", Resource: "nodes"}
	kinds := []synchronizer.ClusterKind{{ClusterID: prod, Kind: pods}, {ClusterID: prod, Kind: nodes}}
	for _, floor := range floorsOf(t, b, kinds...) {
		require.GreaterOrEqual(t, floor.Compare(late), 0)
	}
	report := synchronizer.ClientSeen{At: noon.Add(time.Hour), ConnectedClient: synchronizer.ConnectedClient{ConnectionID: "c", ConnectionTime: noon}}
	report.ClusterID = prod
	require.NoError(t, b.Update(ctx, func(tx synchronizer.Tx) error {
		return errors.Join(tx.SeeKinds(ctx, kinds), tx.SeeClients(ctx, []synchronizer.ClientSeen{report}))
	}))
	for _, floor := range floorsOf(t, b, kinds...) {
		require.GreaterOrEqual(t, floor.Compare(late), 0, "of a kind that was made since")
	}
	clusters, err = b.Clusters(ctx, prod)
	require.NoError(t, err)
	require.Empty(t, clusters, "late records do not revive it")
	require.ErrorIs(t, b.DeleteCluster(ctx, prod), synchronizer.ErrNotFound)
	require.Empty(t, readAll(t, ctx, b, synchronizer.ObjectQuery{Account: "acme", Clusters: []string{"prod"}, Deleted: true}))

	// A new one begins anew, above the floor.
	generation := generationsOf(t, b, synchronizer.ClusterSource{ClusterID: prod, Source: "new"})[0]
	for _, floor := range floorsOf(t, b, kinds...) {
		require.Negative(t, floor.Compare(synchronizer.Order{Generation: generation}))
	}
	row := live(key(prod, pods, "n", "web"), 1, nil)
	row.Order.Generation = generation
	write(t, ctx, b, row)
	clusters, err = b.Clusters(ctx, prod)
	require.NoError(t, err)
	require.Len(t, clusters, 1)
	require.True(t, clusters[0].FirstSeen.IsZero(), "reports of the old connection are none of it")
	require.Equal(t, []string{"web"}, names(t, ctx, b, synchronizer.ObjectQuery{Account: "acme", Clusters: []string{"prod"}, Deleted: true}))
	requireSound(t, b)

	require.ErrorIs(t, b.DeleteCluster(ctx, synchronizer.ClusterID{Account: "acme", Cluster: "none"}), synchronizer.ErrNotFound)
	require.ErrorIs(t, b.DeleteCluster(ctx, synchronizer.ClusterID{Account: "acme"}), synchronizer.ErrInvalid, "never all of them")
}

func deleteAccount(t *testing.T, b Backend) {
	ctx := t.Context()
	stage := synchronizer.ClusterID{Account: "acme", Cluster: "stage"}
	other := synchronizer.ClusterID{Account: "other", Cluster: "prod"}
	fill(t, ctx, b, prod, stage, other)
	for i, account := range []string{"acme", "other"} {
		hash := [32]byte{byte(i + 1)}
		require.NoError(t, b.AddAccessKey(ctx, hash, synchronizer.AccessKey{Account: account}))
		require.NoError(t, b.AddAPIToken(ctx, hash, synchronizer.APIToken{Account: account, Scope: "read"}))
	}
	require.NoError(t, b.AddAPIToken(ctx, [32]byte{9}, synchronizer.APIToken{Scope: "admin"}))
	require.NoError(t, b.DeleteAccount(ctx, "acme"))
	clusters, err := b.Clusters(ctx, synchronizer.ClusterID{})
	require.NoError(t, err)
	require.Len(t, clusters, 1)
	require.Equal(t, other, clusters[0].ClusterID)
	for hash, want := range map[byte]bool{1: false, 2: true, 9: true} {
		_, err := b.APIToken(ctx, [32]byte{hash})
		require.Equal(t, want, err == nil, "%d", hash)
	}
	_, err = b.AccessKey(ctx, [32]byte{1})
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	_, err = b.AccessKey(ctx, [32]byte{2})
	require.NoError(t, err)
	require.ErrorIs(t, b.DeleteAccount(ctx, "acme"), synchronizer.ErrNotFound)
	require.ErrorIs(t, b.DeleteAccount(ctx, "none"), synchronizer.ErrNotFound)
	require.ErrorIs(t, b.DeleteAccount(ctx, ""), synchronizer.ErrInvalid, "never everybody")
	requireSound(t, b)
}

func stats(t *testing.T, b Backend) {
	ctx := t.Context()
	empty, err := b.Stats(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, empty.Engine)
	require.Positive(t, empty.SchemaVersion)
	require.Positive(t, empty.Bytes)
	fill(t, ctx, b, prod, synchronizer.ClusterID{Account: "other", Cluster: "prod"})
	got, err := b.Stats(ctx)
	require.NoError(t, err)
	bodies := int64(0)
	for _, account := range []string{"acme", "other"} {
		page, err := b.Objects(ctx, synchronizer.ObjectQuery{Account: account, Full: true})
		require.NoError(t, err)
		for _, row := range page.Rows {
			bodies += int64(len(row.Body))
		}
	}
	require.Equal(t, synchronizer.StoreStats{
		Engine: empty.Engine, SchemaVersion: empty.SchemaVersion, Bytes: got.Bytes, Accounts: 2, Clusters: 2, Kinds: 4, Sources: 2,
		Objects: 4, Tombstones: 2, Events: 2, Changes: 6, BodyBytes: bodies,
	}, got)
}
