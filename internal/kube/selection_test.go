// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/kube/clustertest"
	"synchronizer/test/kubetest"
)

// TestSelectionIsInEveryRequest: no page of a list and no watch goes without it.
func TestSelectionIsInEveryRequest(t *testing.T) {
	for name, test := range map[string]struct {
		selection Selection
		path      string
		labels    string
		fields    string
	}{
		"everything": {Selection{}, "/api/v1/configmaps", "", ""},
		"namespace":  {Selection{Namespace: "a"}, "/api/v1/namespaces/a/configmaps", "", ""},
		"labels":     {Selection{LabelSelector: "app in (a, b),!c"}, "/api/v1/configmaps", "app in (a, b),!c", ""},
		"all":        {Selection{Namespace: "a", LabelSelector: "x=1&y", FieldSelector: "metadata.name!=b"}, "/api/v1/namespaces/a/configmaps", "x=1&y", "metadata.name!=b"},
		"one object": {ConfigMap("a", "b"), "/api/v1/namespaces/a/configmaps", "", "metadata.name=b"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var seen []*url.URL
			c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen = append(seen, r.URL)
				mu.Unlock()
				query := r.URL.Query()
				next := "more"
				if query.Get("continue") != "" {
					next = ""
				}
				if query.Get("watch") == "" {
					_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","metadata":{"resourceVersion":"7","continue":%q},"items":[]}`, next)
				}
			})
			view := c.Select(test.selection)
			_, err := view.List(t.Context(), configMaps, ignoreItem)
			require.NoError(t, err)
			require.NoError(t, view.Watch(t.Context(), configMaps, "7", ignoreEvent))
			require.Len(t, seen, 3)
			for _, u := range seen {
				require.Equal(t, test.path, u.Path)
				require.Equal(t, test.labels, u.Query().Get("labelSelector"))
				require.Equal(t, test.fields, u.Query().Get("fieldSelector"))
			}
		})
	}
}

func TestConfigMapNeedsNoDiscovery(t *testing.T) {
	c := serve(t, Options{}, answers(200, `{"kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"b","namespace":"a","resourceVersion":"5"},"data":{}}]}`))
	_, err := c.Select(ConfigMap("a", "b")).List(t.Context(), configMaps, func(o synchronizer.Object) error {
		require.JSONEq(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","namespace":"a","resourceVersion":"5"},"data":{}}`, string(o.Body))
		return nil
	})
	require.NoError(t, err)
	require.Empty(t, c.groups)
}

func TestSelectionNeverLeadsElsewhere(t *testing.T) {
	c := serve(t, Options{}, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) })
	for _, namespace := range []string{"..", "a/b", "a?b", "a%2Fb"} {
		view := c.Select(Selection{Namespace: namespace, ObjectKind: "ConfigMap"})
		_, err := view.List(t.Context(), configMaps, ignoreItem)
		require.ErrorIs(t, err, synchronizer.ErrInvalid)
		require.ErrorIs(t, view.Watch(t.Context(), configMaps, "1", ignoreEvent), synchronizer.ErrInvalid)
	}
	view := c.Select(Selection{ObjectKind: "X"})
	_, err := view.List(t.Context(), synchronizer.Kind{Version: "v1", Resource: "../x"}, ignoreItem)
	require.ErrorIs(t, err, synchronizer.ErrKindNotServed)
	_, err = c.Select(Selection{Namespace: "a"}).Get(t.Context(), configMaps, "b", "n")
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
}

// TestSelectionOnRealServer: what leaves a selector is DELETED, and Get tells
// that it still exists; a Role of one namespace is enough for its view.
func TestSelectionOnRealServer(t *testing.T) {
	server := kubetest.Start(t)
	ctx := t.Context()
	user, err := server.UserKubeconfig(ctx, "reader", nil, kubetest.PolicyRule{
		Namespace: "a", Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"},
	})
	require.NoError(t, err)
	require.NoError(t, server.CreateNamespace(ctx, "b"))
	config, _, err := LoadConfig(LoadOptions{Flag: user})
	require.NoError(t, err)
	view := newCluster(t, config).Select(Selection{Namespace: "a", LabelSelector: "in=yes"})
	put := func(namespace, name, in string) {
		t.Helper()
		require.NoError(t, server.Apply(ctx, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q,"labels":{"in":%q}}}`, namespace, name, in)))
	}
	put("a", "one", "yes")
	put("a", "two", "no")
	put("b", "three", "yes")
	var listed []string
	version, err := view.List(ctx, clustertest.ConfigMaps, func(o synchronizer.Object) error {
		listed = append(listed, o.Namespace+"/"+o.Name)
		return o.Err
	})
	require.NoError(t, err)
	require.Equal(t, []string{"a/one"}, listed)

	put("a", "two", "yes")
	put("b", "three", "no")
	put("a", "one", "no")
	var events []string
	err = view.Watch(ctx, clustertest.ConfigMaps, version, func(e synchronizer.WatchEvent) error {
		if e.Type == synchronizer.WatchBookmark {
			return nil
		}
		events = append(events, fmt.Sprint(e.Type, " ", e.Object.Namespace, "/", e.Object.Name))
		if len(events) == 2 {
			return io.EOF
		}
		return nil
	})
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{fmt.Sprint(synchronizer.WatchAdded, " a/two"), fmt.Sprint(synchronizer.WatchDeleted, " a/one")}, events)
	o, err := view.Get(ctx, clustertest.ConfigMaps, "a", "one")
	require.NoError(t, err)
	require.Equal(t, "one", o.Name)
}
