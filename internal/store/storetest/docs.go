// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

var sqlBlocks = regexp.MustCompile("(?s)```sql\n(.*?)```")

// Examples runs the queries of docs/store.md that are meant for the database. Run
// gives the number of rows of the result.
func Examples(t *testing.T, database string, b Backend, run func(t *testing.T, text string) int) {
	document, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "store.md"))
	require.NoError(t, err)
	for _, id := range []synchronizer.ClusterID{prod, {Account: "acme", Cluster: "stage"}, {Account: "other", Cluster: "prod"}} {
		fill(t, t.Context(), b, id)
		pod := live(key(id, pods, "shop", "cart"), 5, nil)
		pod.Body = []byte(`{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"nginx:1"}]},"status":{"phase":"Running"}}`)
		odd := live(key(id, pods, "shop", "odd"), 6, nil)
		odd.Body = []byte(`{"metadata":{"labels":{"app":"web"}},"a":"\u0000\ud800"}`)
		broken := live(key(id, pods, "shop", "broken"), 7, nil)
		broken.Body = []byte("{\xff")
		write(t, t.Context(), b, pod, odd, broken)
		alert := event(key(id, pods, "n", "alert"), 7, time.Minute)
		alert.Body = []byte(`{"message":"m"}`)
		appendEvents(t, b, alert)
	}
	ran := 0
	for _, block := range sqlBlocks.FindAllStringSubmatch(string(document), -1) {
		text := strings.TrimSpace(block[1])
		if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(first, "-- ") && first != "-- "+database {
			continue
		}
		t.Run(strings.Join(strings.Fields(text), " ")[:40], func(t *testing.T) {
			rows := run(t, text)
			if strings.Contains(text, "SELECT ") && !strings.Contains(text, "GRANT") {
				require.Positive(t, rows)
			}
		})
		ran++
	}
	require.GreaterOrEqual(t, ran, 8)
}

// RequireSame checks that a store that was restored has what the other one has, is
// sound, and goes on.
func RequireSame(t *testing.T, original, restored Backend) {
	t.Helper()
	ctx := t.Context()
	q := synchronizer.ObjectQuery{Deleted: true, Full: true, Limit: 10_000}
	want, err := original.Objects(ctx, q)
	require.NoError(t, err)
	require.NotEmpty(t, want.Rows)
	got, err := restored.Objects(ctx, q)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, read := range []func(Backend) (any, error){
		func(b Backend) (any, error) { return b.Clusters(ctx, synchronizer.ClusterID{}) },
		func(b Backend) (any, error) { return b.Changes(ctx, "acme", 0, 0) },
		func(b Backend) (any, error) {
			return b.Events(ctx, synchronizer.EventQuery{Account: "acme", Full: true})
		},
		func(b Backend) (any, error) {
			return b.Sets(ctx, synchronizer.ClusterKind{ClusterID: prod, Kind: pods})
		},
		func(b Backend) (any, error) { return b.AccessKey(ctx, [32]byte{1}) },
	} {
		want, err := read(original)
		require.NoError(t, err)
		got, err := read(restored)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	requireSound(t, restored)
	old := synchronizer.ClusterSource{ClusterID: prod, Source: "old"}
	newer := synchronizer.ClusterSource{ClusterID: prod, Source: "newer than the backup"}
	generations := generationsOf(t, restored, old, newer)
	require.Equal(t, generationsOf(t, original, old)[0], generations[0])
	require.Greater(t, generations[1], generations[0])
	write(t, ctx, restored, live(key(prod, pods, "n", "web"), 50, nil), live(key(prod, pods, "n", "new"), 51, nil), live(key(prod, deployments, "n", "new"), 51, nil))
	requireSound(t, restored)
}

// Fill puts something of everything into a store that is to be backed up.
func Fill(t *testing.T, b Backend) {
	t.Helper()
	fill(t, t.Context(), b, prod, synchronizer.ClusterID{Account: "other", Cluster: "prod"})
	odd := live(key(prod, pods, "n", "odd\x00\x01"), 6, map[string]string{"a": "\x00"})
	odd.Body = []byte("{\xff\x00")
	exact := live(key(prod, pods, "n", "exact"), 7, nil)
	exact.Body = []byte(`{"b":1e400, "a":"\u0000\ud800\\", "c":'` + "\n")
	write(t, t.Context(), b, odd, exact)
	require.NoError(t, b.AddAccessKey(t.Context(), [32]byte{1}, synchronizer.AccessKey{Account: "acme", Created: noon}))
}
