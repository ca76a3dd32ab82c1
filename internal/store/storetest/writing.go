// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

func exactBytes(t *testing.T, b Backend) {
	ctx := t.Context()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	bodies := map[string][]byte{
		"plain":       []byte(`{ "a" : 1.0e+2,"a":2, "big":123456789012345678901234567890 }` + "\n"),
		"every-byte":  every,
		"nul":         []byte("\x00"),
		"nul-inside":  []byte("{\"a\":\"\x00b\"}"),
		"nul-escape":  []byte(`{"a":"\u0000","b":"\ud800"}`),
		"not-utf-8":   []byte("\"\xff\xfe\xc0\x80\xed\xa0\x80\""),
		"not-json":    []byte("{"),
		"number-text": []byte("12"),
		"deep":        []byte(strings.Repeat(`{"a":[`, 250) + "1" + strings.Repeat("]}", 250)),
		"too-deep":    []byte(strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)),
		"integers":    []byte(`{"max":9223372036854775807,"more":18446744073709551615,"min":-9223372036854775808,"float":1E400,"zero":-0.0}`),
		"key-order":   []byte(`{"z":1,"a":{"y":2,"b":3},"\u007a":4,"z":5}`),
		"surrogates":  []byte(`{"pair":"\ud83d\ude00","half":"\ude00\ud83d","end":"\ud83d","slash":"\\u0000"}`),
		"unicode":     []byte(`{"ä":"日本\u2028 😀"}`),
		"empty":       {},
		"none":        nil,
		"etcd-limit":  []byte(`"` + strings.Repeat("x", 1_400_000) + `"`),
		"20-MiB":      bytes.Repeat([]byte("0123456789abcdef"), 20<<16),
	}
	for name, body := range bodies {
		row := live(key(prod, pods, "default", name), 1, nil)
		row.Body = body
		write(t, ctx, b, row)
	}
	for name, body := range bodies {
		row, err := b.Object(ctx, key(prod, pods, "default", name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(body, row.Body), "body of %s", name)
		require.Equal(t, body == nil, row.Body == nil, "nil body of %s", name)
	}
	seen := 0
	q := synchronizer.ObjectQuery{Account: "acme", Full: true, Limit: 3}
	for {
		page, err := b.Objects(ctx, q)
		require.NoError(t, err)
		for _, row := range page.Rows {
			require.True(t, bytes.Equal(bodies[row.Key.Name], row.Body), "body of %s in a page", row.Key.Name)
			seen++
		}
		if q.Continue = page.Continue; q.Continue == "" {
			break
		}
	}
	require.Equal(t, len(bodies), seen)
	require.NoError(t, b.Update(ctx, func(tx synchronizer.Tx) error {
		rows, err := tx.Rows(ctx, []synchronizer.ObjectKey{key(prod, pods, "default", "every-byte")}, []bool{true})
		require.NoError(t, err)
		require.Equal(t, every, rows[0].Body)
		return nil
	}))
}

func rowFields(t *testing.T, b Backend) {
	ctx := t.Context()
	row := synchronizer.Row{
		Key: key(prod, deployments, "", "näme/with 'quotes'"), UID: "u", ResourceVersion: "0xFF-opaque",
		Checksum: "c", Offered: "o", Order: synchronizer.Order{Generation: math.MaxInt64, Seq: math.MaxUint64},
		UpdatedAt: noon, State: "not carried: too_large",
	}
	write(t, ctx, b, row)
	got, err := b.Object(ctx, row.Key)
	require.NoError(t, err)
	require.Equal(t, row, *got)

	row.UID, row.ResourceVersion, row.Checksum, row.Offered, row.State = "u2", "", "c2", "", ""
	row.Order, row.UpdatedAt, row.Body = synchronizer.Order{Generation: 2, Seq: 3}, noon.Add(1e9), []byte("{}")
	write(t, ctx, b, row)
	got, err = b.Object(ctx, row.Key)
	require.NoError(t, err)
	require.Equal(t, row, *got)
	page, err := b.Objects(ctx, synchronizer.ObjectQuery{})
	require.NoError(t, err)
	require.Len(t, page.Rows, 1)
	row.Body = nil // not asked for
	require.Equal(t, row, page.Rows[0])

	_, err = b.Object(ctx, key(prod, deployments, "", "other"))
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	_, err = b.Object(ctx, key(prod, pods, "", row.Key.Name))
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
}

func tombstones(t *testing.T, b Backend) {
	ctx := t.Context()
	k := key(prod, pods, "default", "web")
	write(t, ctx, b, live(k, 1, map[string]string{"app": "web"}))
	dead := tombstone(k, 2)
	dead.Body = []byte("a tombstone has none")
	write(t, ctx, b, dead)
	dead.Body = nil

	got, err := b.Object(ctx, k)
	require.NoError(t, err)
	require.Equal(t, dead, *got)
	require.True(t, got.Deleted())
	require.NoError(t, b.Update(ctx, func(tx synchronizer.Tx) error {
		rows, err := tx.Rows(ctx, []synchronizer.ObjectKey{k}, []bool{true})
		require.NoError(t, err)
		require.Equal(t, dead, *rows[0])
		return nil
	}))
	byLabel := synchronizer.ObjectQuery{Labels: []synchronizer.LabelRequirement{in("app", "web")}, Deleted: true}
	require.Empty(t, names(t, ctx, b, synchronizer.ObjectQuery{}))
	require.Equal(t, []string{"web"}, names(t, ctx, b, synchronizer.ObjectQuery{Deleted: true}))
	require.Empty(t, names(t, ctx, b, byLabel), "a tombstone has no labels")

	again := live(k, 3, map[string]string{"app": "web"})
	write(t, ctx, b, again)
	got, err = b.Object(ctx, k)
	require.NoError(t, err)
	require.Equal(t, again, *got)
	require.Equal(t, []string{"web"}, names(t, ctx, b, byLabel))
	write(t, ctx, b, tombstone(key(prod, pods, "default", "never-seen"), 1))
	require.Equal(t, []string{"web"}, names(t, ctx, b, synchronizer.ObjectQuery{}))
}

func bodiesOnlyWhereAsked(t *testing.T, b Backend) {
	ctx := t.Context()
	rows := []synchronizer.Row{live(key(prod, pods, "a", "1"), 1, nil), live(key(prod, pods, "a", "2"), 2, nil)}
	write(t, ctx, b, rows...)
	require.NoError(t, b.Update(ctx, func(tx synchronizer.Tx) error {
		got, err := tx.Rows(ctx, []synchronizer.ObjectKey{rows[1].Key, key(prod, pods, "a", "none"), rows[0].Key}, []bool{true, true, false})
		require.NoError(t, err)
		require.Equal(t, rows[1], *got[0])
		require.Nil(t, got[1])
		require.Equal(t, rows[0].Key, got[2].Key)
		require.Nil(t, got[2].Body)
		_, err = tx.Rows(ctx, []synchronizer.ObjectKey{rows[0].Key}, nil)
		require.ErrorIs(t, err, synchronizer.ErrInvalid)
		return nil
	}))
}

func ownWrites(t *testing.T, b Backend) {
	ctx := t.Context()
	k := key(prod, pods, "default", "web")
	require.NoError(t, b.Update(ctx, func(tx synchronizer.Tx) error {
		for seq := uint64(1); seq <= 3; seq++ {
			require.NoError(t, put(ctx, tx, []synchronizer.Row{live(k, seq, map[string]string{"seq": fmt.Sprint(seq)})}))
			rows, err := tx.Rows(ctx, []synchronizer.ObjectKey{k}, []bool{false})
			require.NoError(t, err)
			require.Equal(t, seq, rows[0].Order.Seq)
		}
		_, err := b.Object(ctx, k)
		require.ErrorIs(t, err, synchronizer.ErrNotFound, "seen before it was committed")
		return nil
	}))
	for seq, want := range [][]string{nil, {}, {}, {"web"}} {
		if want != nil {
			q := synchronizer.ObjectQuery{Labels: []synchronizer.LabelRequirement{in("seq", fmt.Sprint(seq))}}
			require.Equal(t, want, names(t, ctx, b, q))
		}
	}
}

func largeBatch(t *testing.T, b Backend) {
	ctx := t.Context()
	const n = 2_345
	rows := make([]synchronizer.Row, n)
	for i := range rows {
		kind := pods
		if i%3 == 0 {
			kind = deployments
		}
		rows[i] = live(key(prod, kind, fmt.Sprintf("ns-%02d", i%17), fmt.Sprintf("o-%05d", n-i)), uint64(i+1), map[string]string{"i": fmt.Sprint(i % 5)})
	}
	for range 2 { // insert, then replace
		write(t, ctx, b, rows...)
		require.Len(t, readAll(t, ctx, b, synchronizer.ObjectQuery{Limit: 1000}), n)
	}
	require.Len(t, readAll(t, ctx, b, synchronizer.ObjectQuery{Labels: []synchronizer.LabelRequirement{in("i", "2")}}), n/5)
}

func empty(t *testing.T, b Backend) {
	ctx := t.Context()
	require.NoError(t, b.Update(ctx, func(tx synchronizer.Tx) error {
		generations, err := tx.Generations(ctx, nil)
		require.NoError(t, err)
		require.Empty(t, generations)
		rows, err := tx.Rows(ctx, nil, nil)
		require.NoError(t, err)
		require.Empty(t, rows)
		require.NoError(t, tx.Write(ctx, nil))
		return tx.SeeClients(ctx, nil)
	}))
	require.NoError(t, b.Update(ctx, func(synchronizer.Tx) error { return nil }))
	clusters, err := b.Clusters(ctx, synchronizer.ClusterID{})
	require.NoError(t, err)
	require.Empty(t, clusters)
	require.Empty(t, readAll(t, ctx, b, synchronizer.ObjectQuery{}))
}

func invalidKeys(t *testing.T, b Backend) {
	ctx := t.Context()
	for name, k := range map[string]synchronizer.ObjectKey{
		"no account":    key(synchronizer.ClusterID{Cluster: "c"}, pods, "n", "n"),
		"slash":         key(synchronizer.ClusterID{Account: "a/b", Cluster: "c"}, pods, "n", "n"),
		"no cluster":    key(synchronizer.ClusterID{Account: "a"}, pods, "n", "n"),
		"kind of parts": key(prod, synchronizer.Kind{Version: "v1"}, "n", "n"),
		"name":          key(prod, pods, "n", "\xff"),
		"namespace":     key(prod, pods, "\xc3", "n"),
		"cluster":       key(synchronizer.ClusterID{Account: "a", Cluster: "\xff"}, pods, "n", "n"),
		"kind":          key(prod, synchronizer.Kind{Group: "\xff", Version: "v1", Resource: "x"}, "n", "n"),
	} {
		err := b.Update(ctx, func(tx synchronizer.Tx) error { return put(ctx, tx, []synchronizer.Row{live(k, 1, nil)}) })
		require.ErrorIs(t, err, synchronizer.ErrInvalid, name)
	}
	for _, source := range []synchronizer.ClusterSource{{ClusterID: prod}, {Source: "s"}} {
		err := b.Update(ctx, func(tx synchronizer.Tx) error {
			_, err := tx.Generations(ctx, []synchronizer.ClusterSource{source})
			return err
		})
		require.ErrorIs(t, err, synchronizer.ErrInvalid)
	}
	clusters, err := b.Clusters(ctx, synchronizer.ClusterID{})
	require.NoError(t, err)
	require.Empty(t, clusters, "a refused transaction leaves nothing")
}

// touched: a row that was only confirmed keeps its body, its labels and its
// time, and nobody who follows the feed hears of it.
func touched(t *testing.T, b Backend) {
	ctx := t.Context()
	row := live(key(prod, pods, "default", "web"), 1, map[string]string{"app": "web"})
	write(t, ctx, b, row)
	before, err := b.Clusters(ctx, prod)
	require.NoError(t, err)

	confirmed := row
	confirmed.Order.Seq, confirmed.Offered, confirmed.Body, confirmed.Touched = 7, "offered", nil, true
	confirmed.UpdatedAt = noon.Add(time.Hour)
	write(t, ctx, b, confirmed, live(key(prod, pods, "default", "other"), 8, nil))

	row.Order.Seq, row.Offered = 7, "offered"
	got, err := b.Object(ctx, row.Key)
	require.NoError(t, err)
	require.Equal(t, row, *got)
	require.Equal(t, []string{"web"}, names(t, ctx, b, synchronizer.ObjectQuery{Labels: []synchronizer.LabelRequirement{in("app", "web")}}))
	after, err := b.Clusters(ctx, prod)
	require.NoError(t, err)
	require.Equal(t, before[0].Kinds[0].Objects+1, after[0].Kinds[0].Objects)

	unknown := confirmed
	unknown.Key.Name = "unknown"
	err = b.Update(ctx, func(tx synchronizer.Tx) error { return put(ctx, tx, []synchronizer.Row{unknown}) })
	require.ErrorIs(t, err, synchronizer.ErrInvalid, "what is not there cannot be confirmed")
}
