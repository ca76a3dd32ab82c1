// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/internal/filter"
)

func newLive(t *testing.T, lists filter.Lists) *filter.Live {
	t.Helper()
	live := filter.NewLive("op", false)
	changed, err := live.Replace(lists)
	require.NoError(t, err)
	require.True(t, changed, "the first lists are news, even empty ones")
	return live
}

func TestLiveNamespaces(t *testing.T) {
	type namespaces = map[string]bool
	tests := map[string]struct {
		lists filter.Lists
		want  namespaces
	}{
		"empty lists allow all":    {filter.Lists{}, namespaces{"a": true}},
		"names":                    {filter.Lists{IncludeNamespaces: []string{"a"}}, namespaces{"a": true, "b": false}},
		"names are literal":        {filter.Lists{ExcludeNamespaces: []string{" b ", ""}}, namespaces{"b": true, " b ": false, "": true}},
		"regex is unanchored":      {filter.Lists{ExcludeNamespacesRegex: []string{"dev"}}, namespaces{"my-dev-1": false, "prod": true}},
		"anchors":                  {filter.Lists{ExcludeNamespacesRegex: []string{"^dev$"}}, namespaces{"dev": false, "dev-1": true}},
		"included by either":       {filter.Lists{IncludeNamespaces: []string{"a"}, IncludeNamespacesRegex: []string{"^x"}}, namespaces{"a": true, "x1": true, "b": false}},
		"inclusion beats names":    {filter.Lists{IncludeNamespacesRegex: []string{"^a"}, ExcludeNamespaces: []string{"a1", "b"}}, namespaces{"a1": true, "b": false, "c": false}},
		"inclusion beats regexes":  {filter.Lists{IncludeNamespaces: []string{"a1"}, ExcludeNamespacesRegex: []string{"a"}}, namespaces{"a1": true, "b": false}},
		"excluded by either":       {filter.Lists{ExcludeNamespaces: []string{"a"}, ExcludeNamespacesRegex: []string{"^kube-"}}, namespaces{"a": false, "kube-system": false, "b": true}},
		"exempt from exclusion":    {filter.Lists{ExcludeNamespacesRegex: []string{""}}, namespaces{"": true, "op": true, "a": false}},
		"exempt from inclusion":    {filter.Lists{IncludeNamespaces: []string{"a"}}, namespaces{"": true, "op": true}},
		"what can match nothing":   {filter.Lists{IncludeNamespaces: []string{""}}, namespaces{"a": false, "": true}},
		"long names are not saved": {filter.Lists{ExcludeNamespacesRegex: []string{"x$"}}, namespaces{strings.Repeat("a", 300) + "x": false}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			live := newLive(t, test.lists)
			for namespace, want := range test.want {
				for range 2 { // decided, and remembered
					require.Equal(t, want, live.Namespace(namespace), "%q", namespace)
					got, err := live.Filter().Allows(configmaps, namespace, nil)
					require.NoError(t, err)
					require.Equal(t, want, got, "%q", namespace)
				}
			}
		})
	}
}

func TestLiveKeepsChildWorkloadsOut(t *testing.T) {
	child := []byte(owned("apps/v1", "ReplicaSet"))
	live := newLive(t, filter.Lists{IncludeNamespaces: []string{"a"}})
	for namespace, want := range map[string]bool{"a": false, "b": false, "op": true} {
		got, err := live.Filter().Allows(pods, namespace, child)
		require.NoError(t, err)
		require.Equal(t, want, got, namespace)
	}
	all := filter.NewLive("op", true)
	_, err := all.Replace(filter.Lists{})
	require.NoError(t, err)
	got, err := all.Filter().Allows(pods, "a", child)
	require.NoError(t, err)
	require.True(t, got)
}

func TestLiveAllowsNothingWithoutRules(t *testing.T) {
	live := filter.NewLive("op", true)
	for _, namespace := range []string{"", "op", "a"} {
		require.False(t, live.Namespace(namespace), "%q", namespace)
		got, err := live.Filter().Allows(configmaps, namespace, nil)
		require.NoError(t, err)
		require.False(t, got, "%q", namespace)
	}
}

func TestReplace(t *testing.T) {
	lists := filter.Lists{ExcludeNamespaces: []string{"a"}, ExcludeNamespacesRegex: []string{"^b"}}
	live := newLive(t, lists)
	held := live.Filter()
	require.False(t, held.Namespace("a"))
	require.False(t, held.Namespace("b1"))

	changed, err := live.Replace(lists)
	require.NoError(t, err)
	require.False(t, changed)

	_, err = live.Replace(filter.Lists{ExcludeNamespacesRegex: []string{"("}})
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	require.False(t, held.Namespace("a"), "a rejected change changes nothing")
	require.False(t, held.Namespace("b1"))

	changed, err = live.Replace(filter.Lists{ExcludeNamespaces: []string{"c"}})
	require.NoError(t, err)
	require.True(t, changed)
	require.True(t, held.Namespace("a"), "a filter that was handed out follows")
	require.True(t, held.Namespace("b1"), "what was remembered is forgotten")
	require.False(t, held.Namespace("c"))
}

// TestReplaceIsAtomic: readers see one document or the other, never a mixture.
func TestReplaceIsAtomic(t *testing.T) {
	live := newLive(t, filter.Lists{IncludeNamespaces: []string{"a"}, IncludeNamespacesRegex: []string{"^a$"}})
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				// Neither document carries it; a mixture (no inclusions of the second,
				// no exclusions of the first) would.
				if live.Namespace("b") {
					t.Error("carried by rules that no document has")
					return
				}
			}
		})
	}
	for i := range 500 {
		lists := filter.Lists{IncludeNamespaces: []string{"a"}, IncludeNamespacesRegex: []string{"^a$"}}
		if i%2 == 0 {
			lists = filter.Lists{ExcludeNamespacesRegex: []string{"^b$"}}
		}
		_, err := live.Replace(lists)
		require.NoError(t, err)
	}
	close(stop)
	readers.Wait()
}

// TestLiveMatchesDefinition compares with the rule as it is written down.
func TestLiveMatchesDefinition(t *testing.T) {
	words := rapid.SliceOfN(rapid.StringMatching(`[ab]{1,2}`), 0, 2)
	rapid.Check(t, func(t *rapid.T) {
		l := filter.Lists{
			IncludeNamespaces: words.Draw(t, "include"), ExcludeNamespaces: words.Draw(t, "exclude"),
			IncludeNamespacesRegex: words.Draw(t, "includeRegex"), ExcludeNamespacesRegex: words.Draw(t, "excludeRegex"),
		}
		live := filter.NewLive("", false)
		_, err := live.Replace(l)
		require.NoError(t, err)
		in := func(ns string, names, patterns []string) bool {
			return slices.Contains(names, ns) || slices.ContainsFunc(patterns, func(p string) bool { return regexp.MustCompile(p).MatchString(ns) })
		}
		for _, ns := range []string{"a", "b", "ab", "ba", "aab", "c"} {
			want := !in(ns, l.ExcludeNamespaces, l.ExcludeNamespacesRegex)
			if len(l.IncludeNamespaces)+len(l.IncludeNamespacesRegex) > 0 {
				want = in(ns, l.IncludeNamespaces, l.IncludeNamespacesRegex)
			}
			require.Equal(t, want, live.Namespace(ns), ns)
			require.Equal(t, want, live.Namespace(ns), ns)
		}
	})
}

func BenchmarkNamespace(b *testing.B) {
	live := filter.NewLive("op", false)
	patterns := make([]string, 50)
	for i := range patterns {
		patterns[i] = fmt.Sprintf("^team-%d-[a-z]+$", i)
	}
	_, err := live.Replace(filter.Lists{ExcludeNamespacesRegex: patterns})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		live.Namespace("team-49-x")
	}
}
