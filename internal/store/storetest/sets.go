// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/internal/checksum"
)

// requireSound checks that what is stored twice agrees.
func requireSound(t tester, b Backend) {
	t.Helper()
	var problems []string
	require.NoError(t, b.Check(t.Context(), func(problem string) { problems = append(problems, problem) }))
	require.Empty(t, problems)
}

func digestOf(n int) (digest [16]byte) {
	random := rand.New(rand.NewPCG(uint64(n), 7))
	for i := range digest {
		digest[i] = byte(random.Uint32())
	}
	return digest
}

// sets: those of the store are those of a client with the same objects, after any
// writes.
func sets(t *testing.T, b Backend) {
	ctx := t.Context()
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		id := synchronizer.ClusterID{Account: "acme", Cluster: fmt.Sprintf("c%d", round)}
		type place struct{ ns, name string }
		objects := map[synchronizer.Kind]map[place][16]byte{pods: {}, deployments: {}}
		for step := range rapid.IntRange(1, 5).Draw(r, "transactions") {
			byKey := map[synchronizer.ObjectKey]synchronizer.Row{}
			for range rapid.IntRange(1, 8).Draw(r, "rows") {
				k := key(id, rapid.SampledFrom([]synchronizer.Kind{pods, deployments}).Draw(r, "kind"),
					rapid.SampledFrom([]string{"", "a", "a\x00", "b"}).Draw(r, "ns"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "name"))
				row := live(k, uint64(step+1), map[string]string{"a": rapid.SampledFrom([]string{"1", "2"}).Draw(r, "label")})
				row.Digest = digestOf(rapid.IntRange(0, 5).Draw(r, "digest"))
				if rapid.Bool().Draw(r, "deleted") {
					row = tombstone(k, uint64(step+1))
				}
				byKey[k] = row
			}
			var rows []synchronizer.Row
			for k, row := range byKey {
				rows = append(rows, row)
				delete(objects[k.Kind], place{k.Namespace, k.Name})
				if !row.Deleted() {
					objects[k.Kind][place{k.Namespace, k.Name}] = row.Digest
				}
			}
			write(r, ctx, b, rows...)
		}
		for kind, of := range objects {
			spaces := map[string]*checksum.Set{}
			for p, digest := range of {
				if spaces[p.ns] == nil {
					spaces[p.ns] = &checksum.Set{}
				}
				spaces[p.ns].Add(p.ns, p.name, digest)
			}
			var want []synchronizer.NamespaceSet
			for ns, set := range spaces {
				want = append(want, synchronizer.NamespaceSet{Namespace: ns, Hash: set.Hash, Count: set.Count})
			}
			slices.SortFunc(want, func(a, b synchronizer.NamespaceSet) int { return strings.Compare(a.Namespace, b.Namespace) })
			got, err := b.Sets(ctx, synchronizer.ClusterKind{ClusterID: id, Kind: kind})
			require.NoError(r, err)
			require.Equal(r, len(want), len(got))
			for i := range want {
				require.Equal(r, want[i], got[i])
			}
		}
	})
	requireSound(t, b)
	none, err := b.Sets(ctx, synchronizer.ClusterKind{ClusterID: synchronizer.ClusterID{Account: "other", Cluster: "c1"}, Kind: pods})
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = b.Sets(ctx, synchronizer.ClusterKind{Kind: pods})
	require.ErrorIs(t, err, synchronizer.ErrInvalid, "never that of everybody")
}

// digests are part of the row, and a row that is only confirmed keeps its own.
func digests(t *testing.T, b Backend) {
	ctx := t.Context()
	row := live(key(prod, pods, "n", "x"), 1, nil)
	row.Digest = digestOf(1)
	write(t, ctx, b, row)
	confirmed := row
	confirmed.Order.Seq, confirmed.Touched, confirmed.Body, confirmed.Digest = 2, true, nil, [16]byte{}
	write(t, ctx, b, confirmed)
	row.Order.Seq = 2
	got, err := b.Object(ctx, row.Key)
	require.NoError(t, err)
	require.Equal(t, row, *got)
	var set checksum.Set
	set.Add("n", "x", row.Digest)
	found, err := b.Sets(ctx, synchronizer.ClusterKind{ClusterID: prod, Kind: pods})
	require.NoError(t, err)
	require.Equal(t, []synchronizer.NamespaceSet{{Namespace: "n", Hash: set.Hash, Count: 1}}, found)
}

// search: words in namespace, name, label values and images, all of them.
func search(t *testing.T, b Backend) {
	ctx := t.Context()
	image := live(key(prod, deployments, "shop", "cart"), 1, map[string]string{"app": "Cart-Service"})
	image.Body = []byte(`{"metadata":{"labels":{"app":"Cart-Service"}},"spec":{"template":{"spec":{"containers":[{"image":"registry.example.org/web/nginx:1.25"}]}}}}`)
	other := synchronizer.ClusterID{Account: "other", Cluster: "prod"}
	broken := live(key(prod, pods, "n", "broken-nginx"), 1, nil)
	broken.Body = []byte("{")
	write(t, ctx, b, image, broken, live(key(prod, pods, "shop", "web-7d8f"), 1, map[string]string{"tier": "front"}),
		live(key(prod, pods, "back", "web-9x"), 1, nil), live(key(other, pods, "shop", "web-0"), 1, nil), tombstone(key(prod, pods, "shop", "dead-nginx"), 1))
	for text, want := range map[string]string{
		"nginx": "broken-nginx cart", "NGINX": "broken-nginx cart", "shop": "web-7d8f cart", "web": "web-9x web-7d8f cart",
		"shop web": "web-7d8f cart", "web shop front": "web-7d8f", "cart-service": "cart", "registry.example.org/web/nginx:1.25": "cart",
		"front": "web-7d8f", "ngin": "", "dead": "", "nothing": "", "app": "",
	} {
		for _, limit := range []int{1, 100} {
			got := names(t, ctx, b, synchronizer.ObjectQuery{Account: "acme", Search: text, Limit: limit})
			require.Equal(t, strings.Fields(want), got, "%q, limit %d", text, limit)
		}
	}
	both := synchronizer.ObjectQuery{Account: "acme", Search: "web", Labels: []synchronizer.LabelRequirement{in("tier", "front")}}
	require.Equal(t, []string{"web-7d8f"}, names(t, ctx, b, both))
	require.Equal(t, []string{"web-9x"}, names(t, ctx, b, synchronizer.ObjectQuery{Account: "acme", Search: "web", Namespaces: []string{"back"}}))
	require.Len(t, names(t, ctx, b, synchronizer.ObjectQuery{Search: "web"}), 4)
	_, err := b.Objects(ctx, synchronizer.ObjectQuery{Search: "- a"})
	require.ErrorIs(t, err, synchronizer.ErrInvalid, "no word")

	write(t, ctx, b, live(key(prod, deployments, "shop", "cart"), 2, map[string]string{"app": "basket"}), tombstone(key(prod, pods, "back", "web-9x"), 2))
	require.Equal(t, []string{"broken-nginx"}, names(t, ctx, b, synchronizer.ObjectQuery{Account: "acme", Search: "nginx"}), "the words of before are gone")
	require.Equal(t, []string{"cart"}, names(t, ctx, b, synchronizer.ObjectQuery{Search: "basket"}))
	require.Equal(t, []string{"web-7d8f"}, names(t, ctx, b, synchronizer.ObjectQuery{Account: "acme", Search: "web"}))
	requireSound(t, b)
}

// searchWide: a word that most rows have, and one that some have, are found page by
// page.
func searchWide(t *testing.T, b Backend) {
	ctx := t.Context()
	var rows []synchronizer.Row
	for i := range 2500 {
		name := fmt.Sprintf("wide-%05d", i)
		if i%50 == 0 {
			name += "-rare"
		}
		rows = append(rows, live(key(prod, pods, fmt.Sprintf("n%d", i%7), name), 1, nil))
	}
	write(t, ctx, b, rows...)
	require.Len(t, names(t, ctx, b, synchronizer.ObjectQuery{Search: "wide", Limit: 999}), 2500)
	require.Len(t, names(t, ctx, b, synchronizer.ObjectQuery{Search: "rare wide", Limit: 20}), 50)
	require.Len(t, names(t, ctx, b, synchronizer.ObjectQuery{Search: "rare", Namespaces: []string{"n0"}}), 8)
}
