// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/filter"
	"synchronizer/internal/kube/kubefake"
)

// b052Base puts all four lists to use: a and i-* are carried, b is not.
const b052Base = `{"includeNamespaces":["a"],"excludeNamespaces":["b"],"includeNamespacesRegex":["^i-"],"excludeNamespacesRegex":["^e-"]}`

var b052Invalid = map[string]string{
	"includeNamespaces missing": `{"excludeNamespaces":["a"]}`,
	"null":                      `{"includeNamespaces":null,"excludeNamespaces":["a"]}`,
	"number":                    `{"includeNamespaces":7,"excludeNamespaces":["a"]}`,
	"[1]":                       `{"includeNamespaces":[1],"excludeNamespaces":["a"]}`,
	"extra field":               `{"includeNamespaces":[],"excludeNamespaces":["a"],"namespaces":[]}`,
	"(?!kube)":                  `{"includeNamespaces":[],"excludeNamespaces":["a"],"includeNamespacesRegex":["(?!kube)"]}`,
	"[unclosed":                 `{"includeNamespaces":[],"excludeNamespaces":["a"],"excludeNamespacesRegex":["[unclosed"]}`,
	"two JSON documents":        `{"includeNamespaces":[],"excludeNamespaces":["a"]} {"includeNamespaces":[],"excludeNamespaces":["a"]}`,
	"trailing garbage":          `{"includeNamespaces":[],"excludeNamespaces":["a"]}garbage`,
	"empty text":                ``,
}

// TestB052ValidShapes: strings and arrays, with and without the optional fields.
func TestB052ValidShapes(t *testing.T) {
	for value, want := range map[string][]string{
		`"a, b ,"`:  {"a", " b ", ""}, // split at the commas, nothing is trimmed
		`["a","b"]`: {"a", "b"},
	} {
		lists, err := filter.ParseDocument([]byte(`{"includeNamespaces":` + value + `,"excludeNamespaces":""}`))
		require.NoError(t, err)
		require.Equal(t, filter.Lists{IncludeNamespaces: want}, lists, "both regex fields are missing: they are empty")
	}
	lists, err := filter.ParseDocument([]byte(`{"includeNamespaces":"","excludeNamespaces":[],"excludeNamespacesRegex":[" ","^dev-"]}`))
	require.NoError(t, err)
	require.Equal(t, filter.Lists{ExcludeNamespacesRegex: []string{"^dev-"}}, lists)
}

// TestB052InvalidShapes starts with an invalid document, goes on to a valid one,
// to an invalid one, deletes the ConfigMap and ends with a valid one, for each
// invalid shape.
func TestB052InvalidShapes(t *testing.T) {
	for name, invalid := range b052Invalid {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kubefake.New()
				put := func(document string) {
					cluster.Put(configmaps, configMap("namespace-filters", document))
					synctest.Wait()
				}
				baseInForce := func(r *running) {
					t.Helper()
					for namespace, want := range map[string]bool{"a": true, "i-1": true, "b": false, "e-1": false, "c": false} {
						require.Equal(t, want, r.live.Namespace(namespace), namespace)
					}
				}
				put(invalid)
				r := run(t, cluster)
				time.Sleep(time.Hour) // synctest's clock, no real time
				// Nothing is synchronized before the first valid one; nothing ends either,
				// so that the process stays alive.
				require.False(t, r.isReady())
				for _, namespace := range []string{"", "kubescape", "a", "c"} {
					require.False(t, r.live.Namespace(namespace), "%q", namespace)
				}
				require.Equal(t, 1, r.log.count(t, rejected))
				require.Zero(t, r.log.count(t, updated))
				require.NotZero(t, r.log.count(t, waiting))

				put(b052Base)
				require.True(t, r.isReady(), "recovery without restart")
				baseInForce(r)
				require.Equal(t, 1, r.log.count(t, updated))

				put(invalid)
				baseInForce(r)
				require.Equal(t, 2, r.log.count(t, rejected))

				cluster.Delete(configmaps, "kubescape", "namespace-filters")
				synctest.Wait()
				baseInForce(r)
				require.True(t, r.isReady())

				// Omitted regexes are empty: the old ones are gone.
				put(`{"includeNamespaces":[],"excludeNamespaces":["b"]}`)
				for namespace, want := range map[string]bool{"a": true, "i-1": true, "b": false, "e-1": true, "c": true} {
					require.Equal(t, want, r.live.Namespace(namespace), namespace)
				}
				require.Equal(t, 2, r.log.count(t, updated), "once per applied change")
				require.Equal(t, 2, r.log.count(t, rejected))

				// Deleted and created again as it was: no change.
				cluster.Delete(configmaps, "kubescape", "namespace-filters")
				put(`{"excludeNamespaces":"b","includeNamespaces":""}`)
				require.Equal(t, 2, r.log.count(t, updated))
			})
		})
	}
}
