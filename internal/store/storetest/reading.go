// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

func in(key string, values ...string) synchronizer.LabelRequirement {
	return synchronizer.LabelRequirement{Key: key, Operator: synchronizer.LabelIn, Values: values}
}

func notIn(key string, values ...string) synchronizer.LabelRequirement {
	return synchronizer.LabelRequirement{Key: key, Operator: synchronizer.LabelNotIn, Values: values}
}

func filters(t *testing.T, b Backend) {
	ctx := t.Context()
	stage := synchronizer.ClusterID{Account: "acme", Cluster: "stage"}
	beta := synchronizer.Kind{Group: "apps", Version: "v1beta1", Resource: "deployments"}
	nodes := synchronizer.Kind{Version: "v1", Resource: "nodes"}
	for i, k := range []synchronizer.ObjectKey{
		key(prod, pods, "a", "web-1"), key(prod, pods, "a", "web-2"), key(prod, pods, "b", "web-1"), key(prod, pods, "b", "db"),
		key(prod, deployments, "a", "web"), key(prod, beta, "a", "old"), key(prod, nodes, "", "node-1"),
		key(stage, pods, "a", "web-9"),
	} {
		row := live(k, 1, nil)
		row.UpdatedAt = noon.Add(time.Duration(i) * time.Microsecond)
		write(t, ctx, b, row)
	}
	write(t, ctx, b, tombstone(key(prod, pods, "a", "gone"), 1))
	type query = synchronizer.ObjectQuery
	for name, test := range map[string]struct {
		q    query
		want string // cluster/resource/namespace/name
	}{
		"all": {query{}, "prod/nodes//node-1 prod/pods/a/web-1 prod/pods/a/web-2 prod/pods/b/db prod/pods/b/web-1" +
			" prod/deployments/a/web prod/deployments/a/old stage/pods/a/web-9"},
		"cluster":            {query{Clusters: []string{"stage"}}, "stage/pods/a/web-9"},
		"clusters":           {query{Clusters: []string{"stage", "prod"}, Namespaces: []string{"b"}}, "prod/pods/b/db prod/pods/b/web-1"},
		"group":              {query{Groups: []string{"apps"}}, "prod/deployments/a/web prod/deployments/a/old"},
		"core group":         {query{Groups: []string{"core"}, Resources: []string{"nodes"}}, "prod/nodes//node-1"},
		"version":            {query{Versions: []string{"v1beta1"}}, "prod/deployments/a/old"},
		"cluster-scoped":     {query{Namespaces: []string{"-"}}, "prod/nodes//node-1"},
		"namespaces":         {query{Namespaces: []string{"b", "-", "a"}, Resources: []string{"pods"}, Clusters: []string{"prod"}}, "prod/pods/a/web-1 prod/pods/a/web-2 prod/pods/b/db prod/pods/b/web-1"},
		"name anywhere":      {query{Names: []string{"web-1"}}, "prod/pods/a/web-1 prod/pods/b/web-1"},
		"names":              {query{Names: []string{"web-9", "db", "x"}}, "prod/pods/b/db stage/pods/a/web-9"},
		"name in a space":    {query{Names: []string{"web-1"}, Namespaces: []string{"b"}}, "prod/pods/b/web-1"},
		"prefix":             {query{NamePrefix: "web-", Clusters: []string{"prod"}}, "prod/pods/a/web-1 prod/pods/a/web-2 prod/pods/b/web-1"},
		"prefix in a space":  {query{NamePrefix: "web-", Namespaces: []string{"b"}}, "prod/pods/b/web-1"},
		"prefix and names":   {query{NamePrefix: "web-1", Names: []string{"web-2", "web-1"}, Namespaces: []string{"a"}}, "prod/pods/a/web-1"},
		"nothing":            {query{Resources: []string{"services"}}, ""},
		"deleted":            {query{Deleted: true, Namespaces: []string{"a"}, Resources: []string{"pods"}, Clusters: []string{"prod"}}, "prod/pods/a/gone prod/pods/a/web-1 prod/pods/a/web-2"},
		"since (inclusive)":  {query{UpdatedSince: noon.Add(6 * time.Microsecond)}, "prod/nodes//node-1 stage/pods/a/web-9"},
		"account":            {query{Account: "acme", Resources: []string{"nodes"}}, "prod/nodes//node-1"},
		"account of nothing": {query{Account: "acm"}, ""},
	} {
		for _, limit := range []int{0, 1, 2, 10_000} {
			test.q.Limit = limit
			got := []string{}
			for _, k := range readAll(t, ctx, b, test.q) {
				got = append(got, strings.Join([]string{k.Cluster, k.Kind.Resource, k.Namespace, k.Name}, "/"))
			}
			require.Equal(t, strings.Fields(test.want), got, "%s, limit %d", name, limit)
		}
	}
}

func labels(t *testing.T, b Backend) {
	ctx := t.Context()
	for name, labels := range map[string]map[string]string{
		"a": {"app": "web", "tier": "front"},
		"b": {"app": "web"},
		"c": {"app": "db", "tier": "back"},
		"d": {},
		"e": {"app": "", "odd key": "ünï\x00\"code"},
	} {
		write(t, ctx, b, live(key(prod, pods, "n", name), 1, labels))
	}
	broken := live(key(prod, pods, "n", "f"), 1, nil)
	broken.Body = []byte(`{"metadata":{"labels":{"app":"web"}}`)
	write(t, ctx, b, broken)
	exists := synchronizer.LabelRequirement{Key: "tier", Operator: synchronizer.LabelExists}
	absent := synchronizer.LabelRequirement{Key: "tier", Operator: synchronizer.LabelNotExists}
	for _, test := range []struct {
		terms []synchronizer.LabelRequirement
		want  string
	}{
		{[]synchronizer.LabelRequirement{in("app", "web")}, "a b"},
		{[]synchronizer.LabelRequirement{in("app", "web", "db", "none")}, "a b c"},
		{[]synchronizer.LabelRequirement{in("app", "")}, "e"},
		{[]synchronizer.LabelRequirement{in("app", "none")}, ""},
		{[]synchronizer.LabelRequirement{in("app", "web"), in("tier", "front")}, "a"},
		{[]synchronizer.LabelRequirement{in("app", "web"), notIn("tier", "front")}, "b"},
		{[]synchronizer.LabelRequirement{notIn("app", "web")}, "c d e f"},
		{[]synchronizer.LabelRequirement{exists}, "a c"},
		{[]synchronizer.LabelRequirement{absent}, "b d e f"},
		{[]synchronizer.LabelRequirement{absent, in("app", "web")}, "b"},
		{[]synchronizer.LabelRequirement{in("app", "web"), in("app", "db")}, ""},
		{[]synchronizer.LabelRequirement{in("web", "app")}, ""},
	} {
		for _, limit := range []int{1, 100} {
			got := names(t, ctx, b, synchronizer.ObjectQuery{Labels: test.terms, Limit: limit})
			require.Equal(t, strings.Fields(test.want), got, "%v", test.terms)
		}
	}
}

// labelsFollow: what is found by a label is what the last write says.
func labelsFollow(t *testing.T, b Backend) {
	ctx := t.Context()
	k := key(prod, pods, "n", "x")
	for seq, labels := range []map[string]string{
		{"a": "1", "b": "1"}, {"a": "1", "b": "2"}, {"b": "2"}, {}, {"c": "3"}, {"a": "1", "b": "1", "c": "3"},
	} {
		write(t, ctx, b, live(k, uint64(seq+1), labels))
		for _, name := range []string{"a", "b", "c"} {
			for _, value := range []string{"1", "2", "3"} {
				found := len(names(t, ctx, b, synchronizer.ObjectQuery{Labels: []synchronizer.LabelRequirement{in(name, value)}}))
				require.Equal(t, labels[name] == value, found == 1, "%s=%s after %v", name, value, labels)
			}
		}
	}
}

func badQueries(t *testing.T, b Backend) {
	ctx := t.Context()
	write(t, ctx, b, live(key(prod, pods, "n", "1"), 1, nil), live(key(prod, pods, "n", "2"), 1, nil))
	page, err := b.Objects(ctx, synchronizer.ObjectQuery{Limit: 1})
	require.NoError(t, err)
	require.NotEmpty(t, page.Continue)
	for name, q := range map[string]synchronizer.ObjectQuery{
		"limit above":     {Limit: 10_001},
		"limit below":     {Limit: -1},
		"not base64":      {Continue: "§"},
		"too short":       {Continue: "AA"},
		"cut":             {Continue: page.Continue[:len(page.Continue)-4]},
		"longer":          {Continue: page.Continue + "AAAA"},
		"no values":       {Labels: []synchronizer.LabelRequirement{in("a")}},
		"no label key":    {Labels: []synchronizer.LabelRequirement{in("", "x")}},
		"no operator":     {Labels: []synchronizer.LabelRequirement{{Key: "a", Values: []string{"b"}}}},
		"too many things": {Names: make([]string, 100_000)},
	} {
		_, err := b.Objects(ctx, q)
		require.ErrorIs(t, err, synchronizer.ErrInvalid, name)
	}
}

// pages: limits are kept, and the last page says that it is the last.
func pages(t *testing.T, b Backend) {
	ctx := t.Context()
	var rows []synchronizer.Row
	for i := range 250 {
		rows = append(rows, live(key(prod, pods, fmt.Sprintf("n%d", i%3), fmt.Sprintf("p%03d", i)), 1, nil))
	}
	write(t, ctx, b, rows...)
	for limit, want := range map[int][]int{0: {100, 100, 50}, 125: {125, 125}, 250: {250}, 249: {249, 1}, 10_000: {250}} {
		var sizes []int
		q := synchronizer.ObjectQuery{Limit: limit}
		for {
			page, err := b.Objects(ctx, q)
			require.NoError(t, err)
			sizes = append(sizes, len(page.Rows))
			if q.Continue = page.Continue; q.Continue == "" {
				break
			}
		}
		require.Equal(t, want, sizes, "limit %d", limit)
	}
}

// pagesWhileWriting: what is there all the time is seen exactly once, whatever
// comes and goes in between.
func pagesWhileWriting(t *testing.T, b Backend) {
	ctx := t.Context()
	var rows []synchronizer.Row
	for i := range 300 {
		rows = append(rows, live(key(prod, pods, fmt.Sprintf("n%d", i%7), fmt.Sprintf("stays-%03d", i)), 1, nil))
	}
	write(t, ctx, b, rows...)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for seq := uint64(1); ; seq++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			k := key(prod, pods, fmt.Sprintf("n%d", seq%9), fmt.Sprintf("comes-%03d", seq%50))
			row := live(k, seq, nil)
			if seq%3 == 0 {
				row = tombstone(k, seq)
			}
			err := b.Update(ctx, func(tx synchronizer.Tx) error { return put(ctx, tx, []synchronizer.Row{row, rows[seq%300]}) })
			if err != nil {
				stopped <- err
				return
			}
		}
	}()
	for range 5 {
		seen := map[synchronizer.ObjectKey]int{}
		keys := readAll(t, ctx, b, synchronizer.ObjectQuery{Limit: 17})
		require.True(t, slices.IsSortedFunc(keys, compareKeys))
		for _, k := range keys {
			seen[k]++
			require.Equal(t, 1, seen[k])
		}
		for _, row := range rows {
			require.Equal(t, 1, seen[row.Key])
		}
	}
	close(stop)
	require.NoError(t, <-stopped)
}

func compareKeys(a, b synchronizer.ObjectKey) int {
	return cmp.Or(
		cmp.Compare(a.Account, b.Account), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Kind.Group, b.Kind.Group),
		cmp.Compare(a.Kind.Version, b.Kind.Version), cmp.Compare(a.Kind.Resource, b.Kind.Resource),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
	)
}

// walkIsSet: for any rows and any query, the pages together are the rows that a
// plain loop finds, in order.
func walkIsSet(t *testing.T, b Backend) {
	ctx := t.Context()
	part := []string{"", "a", "a\x00", "b", "ab", "ä", "\U0010ffff"}
	word := rapid.SampledFrom(part[1:])
	var rows []synchronizer.Row
	for i, account := range []string{"a", "b"} {
		for j, cluster := range []string{"a", "ab", "b"} {
			for l, kind := range []synchronizer.Kind{pods, deployments} {
				for m, ns := range part {
					for n, name := range part[1:] {
						k := key(synchronizer.ClusterID{Account: account, Cluster: cluster}, kind, ns, name)
						row := live(k, 1, map[string]string{"l": part[1:4][(i+j+l+m+n)%3]})
						if (i+2*j+3*l+5*m+7*n)%8 == 0 {
							row = tombstone(k, 1)
						}
						rows = append(rows, row)
					}
				}
			}
		}
	}
	write(t, ctx, b, rows...)
	some := func(r *rapid.T, label string) []string {
		return rapid.SliceOfN(rapid.SampledFrom(part[1:4]), 0, 2).Draw(r, label)
	}
	rapid.Check(t, func(r *rapid.T) {
		q := synchronizer.ObjectQuery{
			Account: rapid.SampledFrom([]string{"", "a", "b"}).Draw(r, "account"), Clusters: some(r, "clusters"),
			Groups:     rapid.SampledFrom([][]string{nil, {"core"}, {"apps"}}).Draw(r, "groups"),
			Namespaces: rapid.SliceOfN(rapid.SampledFrom([]string{"-", "a", "a\x00", "\U0010ffff"}), 0, 3).Draw(r, "namespaces"),
			Names:      rapid.SliceOfN(word, 0, 3).Draw(r, "names"), NamePrefix: rapid.SampledFrom(part).Draw(r, "prefix"),
			Deleted: rapid.Bool().Draw(r, "deleted"), Limit: rapid.IntRange(1, 90).Draw(r, "limit"),
		}
		if rapid.Bool().Draw(r, "labels") {
			q.Labels = append(q.Labels, in("l", rapid.SliceOfN(word, 1, 2).Draw(r, "values")...))
		}
		want := []synchronizer.ObjectKey{}
		for i := range rows {
			if selects(&q, &rows[i], part[1:4]) {
				want = append(want, rows[i].Key)
			}
		}
		slices.SortFunc(want, compareKeys)
		require.Equal(r, want, readAll(r, ctx, b, q))
	})
}

// selects is the plain loop's idea of a query; values are those that the label
// l can have.
func selects(q *synchronizer.ObjectQuery, row *synchronizer.Row, values []string) bool {
	any := func(list []string, value, empty string) bool {
		return len(list) == 0 || slices.Contains(list, value) || value == "" && slices.Contains(list, empty)
	}
	ok := (q.Account == "" || q.Account == row.Key.Account) && any(q.Clusters, row.Key.Cluster, "") &&
		any(q.Groups, row.Key.Kind.Group, "core") && any(q.Namespaces, row.Key.Namespace, "-") &&
		any(q.Names, row.Key.Name, "") && strings.HasPrefix(row.Key.Name, q.NamePrefix) && (q.Deleted || !row.Deleted())
	for _, requirement := range q.Labels {
		has := slices.ContainsFunc(values, func(value string) bool {
			return slices.Contains(requirement.Values, value) && string(body(row.Key, map[string]string{"l": value})) == string(row.Body)
		})
		ok = ok && has
	}
	return ok
}
