// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"synchronizer"
	"synchronizer/internal/catalog"
	"synchronizer/test/kubetest"
)

const patience = 30 * time.Second

// answerPaths runs an API server that has these answers.
func answerPaths(t *testing.T, answers map[string]string) *Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch body, ok := answers[r.URL.Path]; {
		case !ok:
			http.NotFound(w, r)
		case body == "503":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(w, body)
		}
	}))
	t.Cleanup(server.Close)
	return newCluster(t, &rest.Config{Host: server.URL})
}

const widgetList = `{"kind":"APIResourceList","groupVersion":"example.org/v1","resources":[
	{"name":"widgets/status","namespaced":true,"kind":"Widget","verbs":["get"]},
	{"name":"widgets","namespaced":true,"kind":"Widget","verbs":["list","watch","get"]},
	{"name":"reviews","namespaced":false,"kind":"Review","verbs":["create"]}]}`

// TestGroupsOfAnOldServer: without aggregated discovery each version is asked for.
func TestGroupsOfAnOldServer(t *testing.T) {
	group := `{"kind":"APIGroup","name":"example.org","versions":[{"version":"v1"},{"version":"v2"},{"version":"v3"}],"preferredVersion":{"version":"v2"}}`
	c := answerPaths(t, map[string]string{
		"/api":                 `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1":              `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["list","watch"]}]}`,
		"/apis":                `{"kind":"APIGroupList","groups":[` + group + `]}`,
		"/apis/example.org":    group,
		"/apis/example.org/v1": widgetList,
		"/apis/example.org/v2": "503",
	})
	want := catalog.Group{Name: "example.org", Versions: []catalog.Version{
		{Name: "v2", Unknown: true},
		{Name: "v1", Resources: []catalog.Resource{{Name: "reviews", ObjectKind: "Review"}, {Name: "widgets", ObjectKind: "Widget", Namespaced: true, Watchable: true}}},
	}}
	groups, err := c.Groups(t.Context())
	require.NoError(t, err)
	require.Equal(t, []catalog.Group{
		{Versions: []catalog.Version{{Name: "v1", Resources: []catalog.Resource{{Name: "pods", ObjectKind: "Pod", Namespaced: true, Watchable: true}}}}},
		want,
	}, groups)
	one, err := c.Group(t.Context(), "example.org")
	require.NoError(t, err)
	require.Equal(t, want, one)
	core, err := c.Group(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, groups[0], core)
	none, err := c.Group(t.Context(), "other.org")
	require.NoError(t, err)
	require.Equal(t, catalog.Group{Name: "other.org"}, none)
	_, err = c.Group(t.Context(), "a/../b")
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
}

func TestGroupsAggregated(t *testing.T) {
	c := answerPaths(t, map[string]string{
		"/api": `{"kind":"APIGroupDiscoveryList","items":[]}`,
		"/apis": `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"example.org"},"versions":[
			{"version":"v2","freshness":"Stale"},
			{"version":"v1","freshness":"Current","resources":[{"resource":"widgets","scope":"Namespaced","responseKind":{"kind":"Widget"},"verbs":["list","watch"]}]}]}]}`,
	})
	groups, err := c.Groups(t.Context())
	require.NoError(t, err)
	require.Equal(t, []catalog.Group{{Name: "example.org", Versions: []catalog.Version{
		{Name: "v2", Unknown: true},
		{Name: "v1", Resources: []catalog.Resource{{Name: "widgets", ObjectKind: "Widget", Namespaced: true, Watchable: true}}},
	}}}, groups)
}

func TestGroupsThatAreNone(t *testing.T) {
	for name, body := range map[string]string{"another document": `{"kind":"Status"}`, "no JSON": "hello", "503": "503"} {
		t.Run(name, func(t *testing.T) {
			c := answerPaths(t, map[string]string{"/api": body, "/apis/x": body})
			_, err := c.Groups(t.Context())
			require.Error(t, err)
			_, err = c.Group(t.Context(), "x")
			require.Error(t, err)
		})
	}
}

// TestDefinitions follows a custom resource definition of a real API server.
func TestDefinitions(t *testing.T) {
	server := kubetest.Start(t)
	c := newCluster(t, server.RESTConfig())
	const name = "gadgets.example.org"
	_, err := c.CRD(t.Context(), name)
	require.ErrorIs(t, err, synchronizer.ErrNotFound)

	for _, kind := range []synchronizer.Kind{CRDs, APIServices} {
		seen := make(chan catalog.Definition, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.WatchDefinitions(ctx, kind, func(d catalog.Definition) { seen <- d }) }()
		wait := func(change catalog.Change, name string) catalog.Definition {
			for limit := time.After(patience); ; {
				select {
				case d := <-seen:
					if d.Change == change && d.Name == name {
						return d
					}
				case err := <-done:
					require.FailNow(t, "the watch ended", "%v", err)
				case <-limit:
					require.FailNow(t, "not seen", "%v %v", change, name)
				}
			}
		}
		wait(catalog.Listed, "")
		watched := name
		if kind == APIServices {
			watched = "v1.example.org"
		}
		require.NoError(t, server.CreateCRD(t.Context(), "example.org", "v1", "gadgets", "Gadget", kubetest.Namespaced))
		d := wait(catalog.Added, watched)
		require.Equal(t, "example.org", d.Group())
		uid, err := c.CRD(t.Context(), name)
		require.NoError(t, err)
		if kind == CRDs {
			require.Equal(t, d.UID, uid)
		}
		group, err := c.Group(t.Context(), "example.org")
		require.NoError(t, err)
		require.Equal(t, "gadgets", group.Versions[0].Resources[0].Name)
		groups, err := c.Groups(t.Context())
		require.NoError(t, err)
		require.Greater(t, len(groups), 10)

		_, err = server.Do(t.Context(), http.MethodDelete, path(CRDs, "")+"/"+name, "", nil)
		require.NoError(t, err)
		wait(catalog.Deleted, watched)
		_, err = c.CRD(t.Context(), name)
		require.ErrorIs(t, err, synchronizer.ErrNotFound)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}

	// The whole catalog is two requests, and the same as that of an old server.
	var aggregated catalog.Catalog
	groups, err := c.Groups(t.Context())
	require.NoError(t, err)
	aggregated.Replace(groups)
	for _, g := range groups {
		one, err := c.Group(t.Context(), g.Name)
		require.NoError(t, err)
		require.False(t, aggregated.Put(one), "%v", one)
	}

	nobody, err := server.UserKubeconfig(t.Context(), "nobody", nil)
	require.NoError(t, err)
	config, _, err := LoadConfig(LoadOptions{Flag: nobody})
	require.NoError(t, err)
	denied := newCluster(t, config)
	require.ErrorIs(t, denied.WatchDefinitions(t.Context(), CRDs, func(catalog.Definition) {}), synchronizer.ErrForbidden)
	_, err = denied.CRD(t.Context(), name)
	require.ErrorIs(t, err, synchronizer.ErrForbidden)
	_, err = denied.Groups(t.Context())
	require.NoError(t, err, "discovery is for everybody")
}

// TestNamespaces reads two namespaces with rights in these only.
func TestNamespaces(t *testing.T) {
	server := kubetest.Start(t)
	rule := func(namespace string) kubetest.PolicyRule {
		return kubetest.PolicyRule{Namespace: namespace, APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}
	}
	kubeconfig, err := server.UserKubeconfig(t.Context(), "reader", nil, rule("one"), rule("two"))
	require.NoError(t, err)
	require.NoError(t, server.CreateNamespace(t.Context(), "three"))
	config, _, err := LoadConfig(LoadOptions{Flag: kubeconfig})
	require.NoError(t, err)
	v := newCluster(t, config).SelectNamespaces(Selection{LabelSelector: "in"}, "two", "one", "two")
	put := func(namespace, name, label string) {
		require.NoError(t, server.Apply(t.Context(), fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q,"labels":{%q:""}}}`, namespace, name, label)))
	}
	for _, namespace := range []string{"one", "two", "three"} {
		put(namespace, "a", "in")
		put(namespace, "out", "other")
	}
	var listed []string
	version, err := v.List(t.Context(), configMaps, func(o synchronizer.Object) error {
		listed = append(listed, o.Namespace+"/"+o.Name)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"one/a", "two/a"}, listed)

	require.ErrorIs(t, v.Watch(t.Context(), configMaps, "1", ignoreEvent), synchronizer.ErrGone)
	seen := make(chan synchronizer.WatchEvent, 100)
	watch := func(ctx context.Context, from string) chan error {
		done := make(chan error, 1)
		go func() {
			done <- v.Watch(ctx, configMaps, from, func(e synchronizer.WatchEvent) error {
				e.Object.Body = nil
				seen <- e
				return nil
			})
		}()
		return done
	}
	next := func(want string) string {
		for limit := time.After(patience); ; {
			select {
			case e := <-seen:
				version = e.Object.ResourceVersion
				if e.Type != synchronizer.WatchBookmark {
					require.Equal(t, want, e.Object.Namespace+"/"+e.Object.Name)
					return version
				}
			case <-limit:
				require.FailNow(t, "not seen", want)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := watch(ctx, version)
	put("two", "b", "in")
	next("two/b")
	put("three", "b", "in")
	put("one", "b", "in")
	next("one/b")
	put("two", "c", "in")
	version = next("two/c")
	cancel()
	require.Error(t, <-done)
	put("one", "d", "in")
	put("two", "d", "in")
	done = watch(t.Context(), version)
	got := map[string]bool{}
	for range 2 {
		select {
		case e := <-seen:
			got[e.Object.Namespace+"/"+e.Object.Name] = true
		case <-time.After(patience):
			require.FailNow(t, "not seen")
		}
	}
	require.Equal(t, map[string]bool{"one/d": true, "two/d": true}, got, "it goes on where it was")

	_, err = v.Get(t.Context(), configMaps, "one", "out")
	require.NoError(t, err, "whatever the selectors")
	_, err = v.Get(t.Context(), configMaps, "three", "a")
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	require.NoError(t, server.Kill())
	require.Error(t, <-done)
}
