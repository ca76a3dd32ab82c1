// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

func generationsOf(t *testing.T, b Backend, sources ...synchronizer.ClusterSource) []int64 {
	t.Helper()
	var result []int64
	require.NoError(t, b.Update(t.Context(), func(tx synchronizer.Tx) (err error) {
		result, err = tx.Generations(t.Context(), sources)
		return err
	}))
	return result
}

func generations(t *testing.T, b Backend) {
	other := synchronizer.ClusterID{Account: "other", Cluster: prod.Cluster}
	source := func(id synchronizer.ClusterID, name string) synchronizer.ClusterSource {
		return synchronizer.ClusterSource{ClusterID: id, Source: name}
	}
	require.Equal(t, []int64{1, 2, 1}, generationsOf(t, b, source(prod, "a"), source(prod, "b"), source(other, "a")))
	require.Equal(t, []int64{2, 1, 3}, generationsOf(t, b, source(prod, "b"), source(prod, "a"), source(prod, "c")))
	require.Equal(t, []int64{2, 2, 1}, generationsOf(t, b, source(other, "z"), source(other, "z"), source(other, "a")), "a source that stands twice")

	many := make([]synchronizer.ClusterSource, 333)
	want := make([]int64, len(many))
	for i := range many {
		many[i], want[i] = source(prod, fmt.Sprintf("many-%d", i)), int64(4+i)
	}
	require.Equal(t, want, generationsOf(t, b, many...))
	require.Equal(t, want, generationsOf(t, b, many...))
}

// latestSources: a source may be named as the greatest of a range.
func latestSources(t *testing.T, b Backend) {
	source := func(name string) synchronizer.ClusterSource {
		return synchronizer.ClusterSource{ClusterID: prod, Source: name}
	}
	until := func(name string) synchronizer.ClusterSource {
		return synchronizer.ClusterSource{ClusterID: prod, Source: name, From: "out-1@"}
	}
	other := synchronizer.ClusterSource{ClusterID: synchronizer.ClusterID{Account: "other", Cluster: prod.Cluster}, Source: "out-1@5", From: "out-1@"}
	require.Equal(t, []int64{0, 1, 0}, generationsOf(t, b, until("out-1@5"), source("out-10@5"), other), "it gets no generation")
	require.Equal(t, []int64{2, 2, 3}, generationsOf(t, b, until("out-1@5"), source("out-1@"), source("out-1@7")), "what is new counts")
	require.Equal(t, []int64{2, 3, 3, 2, 3, 0}, generationsOf(t, b, until("out-1@6"), until("out-1@7"), until("out-1@8"), until("out-1@"), until("out-1@8"), other))
	require.Equal(t, []int64{4, 3}, generationsOf(t, b, source("out-1@9"), until("out-1@8")))
	odd := []string{"out-1@\x00", "out-1@\x00\x01", "out-1@\x01", "out-1@ü"}
	for _, name := range odd {
		generationsOf(t, b, source(name))
	}
	require.Equal(t, []int64{5, 6, 7, 4, 8}, generationsOf(t, b, until(odd[0]), until(odd[1]), until(odd[2]), until("out-1@z"), until(odd[3])))

	many := make([]synchronizer.ClusterSource, 333)
	want := make([]int64, len(many))
	for i := range many {
		many[i], want[i] = until(fmt.Sprintf("out-1@8%d", i)), 3
	}
	require.Equal(t, want, generationsOf(t, b, many...))
}

// accounts: two accounts use the same names for everything.
func accounts(t *testing.T, b Backend) {
	ctx := t.Context()
	ids := []synchronizer.ClusterID{prod, {Account: "other", Cluster: prod.Cluster}}
	for _, id := range ids {
		row := live(key(id, pods, "default", "web"), 1, map[string]string{"app": "web"})
		row.UID = id.Account
		write(t, ctx, b, row)
	}
	first, err := b.Objects(ctx, synchronizer.ObjectQuery{Limit: 1})
	require.NoError(t, err)
	for _, id := range ids {
		row, err := b.Object(ctx, key(id, pods, "default", "web"))
		require.NoError(t, err)
		require.Equal(t, id.Account, row.UID)
		for _, q := range []synchronizer.ObjectQuery{
			{},
			{Clusters: []string{prod.Cluster}},
			{Labels: []synchronizer.LabelRequirement{in("app", "web")}},
			{Names: []string{"web"}, Namespaces: []string{"default"}},
		} {
			q.Account = id.Account
			require.Equal(t, []synchronizer.ObjectKey{row.Key}, readAll(t, ctx, b, q))
			q.Continue = first.Continue // somebody else's, maybe
			for _, key := range readAll(t, ctx, b, q) {
				require.Equal(t, id.Account, key.Account)
			}
		}
		clusters, err := b.Clusters(ctx, synchronizer.ClusterID{Account: id.Account})
		require.NoError(t, err)
		require.Len(t, clusters, 1)
		require.Equal(t, id, clusters[0].ClusterID)
		require.Equal(t, int64(1), clusters[0].Kinds[0].Objects)
	}
	clusters, err := b.Clusters(ctx, synchronizer.ClusterID{Cluster: prod.Cluster})
	require.NoError(t, err)
	require.Len(t, clusters, 2)
	require.Equal(t, []string{"web", "web"}, names(t, ctx, b, synchronizer.ObjectQuery{}))
	require.Empty(t, readAll(t, ctx, b, synchronizer.ObjectQuery{Account: "nobody"}))
}

func clients(t *testing.T, b Backend) {
	ctx := t.Context()
	client := func(connection string, connected, at time.Duration) synchronizer.ClientSeen {
		return synchronizer.ClientSeen{
			ConnectedClient: synchronizer.ConnectedClient{
				Hello: synchronizer.Hello{
					ClusterID: prod, SynchronizerVersion: "v1.2.3", HelmVersion: "h-" + connection, GitVersion: "v1.36.0",
					CloudProvider: "aws", ClusterUID: "uid", ResourceGroup: "rg",
				},
				ConnectionID: connection, ConnectionTime: noon.Add(connected),
			},
			At: noon.Add(at),
		}
	}
	see := func(seen ...synchronizer.ClientSeen) synchronizer.ClusterStatus {
		require.NoError(t, b.Update(ctx, func(tx synchronizer.Tx) error { return tx.SeeClients(ctx, seen) }))
		clusters, err := b.Clusters(ctx, prod)
		require.NoError(t, err)
		require.Len(t, clusters, 1)
		return clusters[0]
	}
	generationsOf(t, b, synchronizer.ClusterSource{ClusterID: prod, Source: "before any report"})
	status := see(client("two", time.Hour, time.Hour))
	require.Equal(t, synchronizer.ClusterStatus{
		ClusterID: prod, Client: client("two", time.Hour, 0).ConnectedClient,
		FirstSeen: noon.Add(time.Hour), LastSeen: noon.Add(time.Hour),
	}, status)

	// An older connection, reported later by a slow server, does not win.
	status = see(client("one", 0, 2*time.Hour), client("one", 0, 0))
	require.Equal(t, "two", status.Client.ConnectionID)
	require.Equal(t, "h-two", status.Client.HelmVersion)
	require.Equal(t, noon, status.FirstSeen)
	require.Equal(t, noon.Add(2*time.Hour), status.LastSeen)

	other := client("x", 0, 0)
	other.Cluster = "new"
	status = see(other, client("three", 3*time.Hour, 3*time.Hour))
	require.Equal(t, client("three", 3*time.Hour, 0).ConnectedClient, status.Client)
	require.Equal(t, noon.Add(3*time.Hour), status.LastSeen)
	all, err := b.Clusters(ctx, synchronizer.ClusterID{})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "new", all[0].Cluster, "ordered by name")
}

// kindNumbers: counts and times agree with the rows after any writes.
func kindNumbers(t *testing.T, b Backend) {
	ctx := t.Context()
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		id := synchronizer.ClusterID{Account: "acme", Cluster: fmt.Sprintf("c%d", round)}
		liveNow := map[synchronizer.Kind]map[string]bool{pods: {}, deployments: {}}
		last := map[synchronizer.Kind]time.Time{}
		for step := range rapid.IntRange(1, 6).Draw(r, "transactions") {
			byKey := map[synchronizer.ObjectKey]synchronizer.Row{}
			for range rapid.IntRange(1, 5).Draw(r, "rows") {
				k := key(id, rapid.SampledFrom([]synchronizer.Kind{pods, deployments}).Draw(r, "kind"), "n",
					rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "name"))
				row := live(k, uint64(step+1), nil)
				if rapid.Bool().Draw(r, "deleted") {
					row = tombstone(k, uint64(step+1))
				}
				row.UpdatedAt = noon.Add(time.Duration(step) * time.Second)
				byKey[k] = row
			}
			var rows []synchronizer.Row
			for k, row := range byKey {
				rows = append(rows, row)
				last[k.Kind] = row.UpdatedAt
				delete(liveNow[k.Kind], k.Name)
				if !row.Deleted() {
					liveNow[k.Kind][k.Name] = true
				}
			}
			write(r, ctx, b, rows...)
		}
		clusters, err := b.Clusters(ctx, id)
		require.NoError(r, err)
		var want []synchronizer.KindStatus
		for _, kind := range []synchronizer.Kind{pods, deployments} {
			if !last[kind].IsZero() {
				want = append(want, synchronizer.KindStatus{Kind: kind, Objects: int64(len(liveNow[kind])), LastChange: last[kind]})
			}
		}
		require.Equal(r, want, clusters[0].Kinds)
	})
}

func credentials(t *testing.T, b Backend) {
	ctx := t.Context()
	hash := [32]byte{0: 1, 31: 255}
	_, err := b.AccessKey(ctx, hash)
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	_, err = b.APIToken(ctx, hash)
	require.ErrorIs(t, err, synchronizer.ErrNotFound)

	accessKey := synchronizer.AccessKey{Account: "acme", Cluster: "prod", Created: noon}
	require.NoError(t, b.AddAccessKey(ctx, hash, accessKey))
	gotKey, err := b.AccessKey(ctx, hash)
	require.NoError(t, err)
	require.Equal(t, accessKey, gotKey)
	_, err = b.APIToken(ctx, hash)
	require.ErrorIs(t, err, synchronizer.ErrNotFound, "a key is no token")

	token := synchronizer.APIToken{Scope: "admin", Created: noon}
	require.NoError(t, b.AddAPIToken(ctx, hash, token))
	gotToken, err := b.APIToken(ctx, hash)
	require.NoError(t, err)
	require.Equal(t, token, gotToken)

	for name, err := range map[string]error{
		"known key":   b.AddAccessKey(ctx, hash, synchronizer.AccessKey{Account: "other"}),
		"known token": b.AddAPIToken(ctx, hash, synchronizer.APIToken{Account: "other", Scope: "read"}),
		"no account":  b.AddAccessKey(ctx, [32]byte{2}, synchronizer.AccessKey{}),
		"no scope":    b.AddAPIToken(ctx, [32]byte{2}, synchronizer.APIToken{Account: "a", Scope: "all"}),
	} {
		require.ErrorIs(t, err, synchronizer.ErrInvalid, name)
	}
	gotKey, err = b.AccessKey(ctx, hash)
	require.NoError(t, err)
	require.Equal(t, accessKey, gotKey, "the first one stands")
}
