// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer"
	"synchronizer/internal/catalog"
	"synchronizer/internal/kube"
	"synchronizer/internal/rawjson"
	"synchronizer/test/kubetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGenerate(t *testing.T) {
	for _, kind := range []synchronizer.Kind{Deployments, Pods} {
		t.Run(kind.Resource, func(t *testing.T) {
			const n = 2000
			bytes, names, previous := 0, map[string]bool{}, ""
			for item := range Generate(kind, 7, n) {
				meta, err := rawjson.Metadata(item.Body)
				require.NoError(t, err)
				require.Equal(t, item.Name, meta.Name)
				require.Equal(t, item.Namespace, meta.Namespace)
				require.Equal(t, kind.GroupVersion(), meta.APIVersion)
				_, err = rawjson.Metadata(item.Manifest)
				require.NoError(t, err)
				bytes += len(item.Body)
				names[item.Name] = true
				key := item.Namespace + "/" + item.Name
				require.Less(t, previous, key, "the API server's order")
				previous = key
			}
			require.Len(t, names, n)
			require.InDelta(t, 2700, bytes/n, 100)
			again := slices.Collect(Generate(kind, 7, 3))
			require.Equal(t, again, slices.Collect(Generate(kind, 7, 3)))
			require.NotEqual(t, again[0].Body, slices.Collect(Generate(kind, 8, 1))[0].Body)
		})
	}
	require.Empty(t, slices.Collect(Generate(synchronizer.Kind{}, 1, 5)))
}

func start(t *testing.T, sets ...*Set) (*Server, *kube.Cluster) {
	t.Helper()
	server, err := NewServer(sets...)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	cluster, err := kube.New(kube.Options{Config: server.RESTConfig()})
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	return server, cluster
}

func TestServer(t *testing.T) {
	for _, kind := range []synchronizer.Kind{Deployments, Pods} {
		t.Run(kind.Resource, func(t *testing.T) {
			want := slices.Collect(Generate(kind, 7, 1200))
			server, cluster := start(t, GenerateSet(kind, 7, 1200))
			var i int
			version, err := cluster.List(t.Context(), kind, func(o synchronizer.Object) error {
				require.Equal(t, string(want[i].Body), string(o.Body))
				i++
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, 1200, i)
			require.Equal(t, server.ResourceVersion(kind), version)
			o, err := cluster.Get(t.Context(), kind, want[5].Namespace, want[5].Name)
			require.NoError(t, err)
			require.Equal(t, string(want[5].Body), string(o.Body))
			_, err = cluster.Get(t.Context(), kind, "x", want[5].Name)
			require.ErrorIs(t, err, synchronizer.ErrNotFound)
			_, err = cluster.List(t.Context(), synchronizer.Kind{Version: "v2", Resource: "pods"}, func(synchronizer.Object) error { return nil })
			require.ErrorIs(t, err, synchronizer.ErrKindNotServed)
		})
	}
}

func TestPlay(t *testing.T) {
	custom := &Set{
		Kind: synchronizer.Kind{Group: "x.io", Version: "v1", Resource: "things"}, ObjectKind: "Thing", ItemsFirst: true, ResourceVersion: "10",
		Items: [][]byte{
			[]byte(`{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"3"}}`),
			[]byte(`{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"annotations":{"q":"1"},"name":"b","resourceVersion":"4"},"z":[1.0]}`),
		},
	}
	server, cluster := start(t, custom)
	from := server.ResourceVersion(custom.Kind)
	played := make(chan error, 1)
	go func() { played <- server.Play(t.Context(), custom.Kind, 4, 1000) }()
	enough := errors.New("enough")
	var bodies []string
	err := cluster.Watch(t.Context(), custom.Kind, from, func(e synchronizer.WatchEvent) error {
		require.Equal(t, synchronizer.WatchModified, e.Type)
		bodies = append(bodies, string(e.Object.Body))
		at, ok := server.Sent(custom.Kind, e.Object.Namespace, e.Object.Name, e.Object.ResourceVersion)
		require.True(t, ok)
		require.False(t, at.IsZero())
		if len(bodies) == 4 {
			return enough
		}
		return nil
	})
	require.Equal(t, enough, err)
	require.NoError(t, <-played)
	require.Equal(t, []string{
		`{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"11","annotations":{"benchmark.synchronizer/change":"0"}}}`,
		`{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"annotations":{"benchmark.synchronizer/change":"1","q":"1"},"name":"b","resourceVersion":"12"},"z":[1.0]}`,
		`{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"13","annotations":{"benchmark.synchronizer/change":"2"}}}`,
		`{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"annotations":{"benchmark.synchronizer/change":"3","q":"1"},"name":"b","resourceVersion":"14"},"z":[1.0]}`,
	}, bodies)
	o, err := cluster.Get(t.Context(), custom.Kind, "", "b")
	require.NoError(t, err)
	require.Equal(t, bodies[3], string(o.Body))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, server.Play(ctx, custom.Kind, 1000, 1), context.Canceled)
	require.Error(t, server.Play(t.Context(), Pods, 1, 1))
}

func TestOldVersionIsGone(t *testing.T) {
	server, cluster := start(t, GenerateSet(Deployments, 1, 10))
	from := server.ResourceVersion(Deployments)
	require.NoError(t, server.Play(t.Context(), Deployments, maxLog+1, 1e9))
	err := cluster.Watch(t.Context(), Deployments, from, func(synchronizer.WatchEvent) error { return nil })
	require.ErrorIs(t, err, synchronizer.ErrGone)
}

// TestRecord records what a real API server answers for generated objects.
func TestRecord(t *testing.T) {
	real := kubetest.Start(t)
	const n = 520
	seen := map[string]bool{}
	for item := range Generate(Deployments, 3, n) {
		if !seen[item.Namespace] {
			require.NoError(t, real.CreateNamespace(t.Context(), item.Namespace))
			seen[item.Namespace] = true
		}
		_, err := real.Do(t.Context(), http.MethodPost, "/apis/apps/v1/namespaces/"+item.Namespace+"/deployments", "", item.Manifest)
		require.NoError(t, err)
	}
	dir := t.TempDir()
	require.NoError(t, Record(t.Context(), real.RESTConfig(), Deployments, dir))
	set, err := Load(dir)
	require.NoError(t, err)
	require.Len(t, set.Items, n)

	direct, err := kube.New(kube.Options{Config: real.RESTConfig()})
	require.NoError(t, err)
	defer direct.Close()
	_, stub := start(t, set)
	all := func(c *kube.Cluster) (all []string) {
		_, err := c.List(t.Context(), Deployments, func(o synchronizer.Object) error {
			all = append(all, string(o.Body))
			return nil
		})
		require.NoError(t, err)
		return all
	}
	require.Equal(t, all(direct), all(stub), "the stub answers as the real one")
	_, err = Load(t.TempDir())
	require.Error(t, err)
	require.ErrorContains(t, Record(t.Context(), real.RESTConfig(), synchronizer.Kind{Version: "v1", Resource: "nothing"}, dir), "not served")
}

func TestDiscovery(t *testing.T) {
	nodes := synchronizer.Kind{Version: "v1", Resource: "nodes"}
	_, cluster := start(t, GenerateSet(Deployments, 1, 1), GenerateSet(Pods, 1, 1), EmptySet(nodes, "Node", false))
	groups, err := cluster.Groups(t.Context())
	require.NoError(t, err)
	watchable := func(name, kind string, namespaced bool) catalog.Resource {
		return catalog.Resource{Name: name, ObjectKind: kind, Namespaced: namespaced, Watchable: true}
	}
	one := func(group string, resources ...catalog.Resource) catalog.Group {
		return catalog.Group{Name: group, Versions: []catalog.Version{{Name: "v1", Resources: resources}}}
	}
	apps := one("apps", watchable("deployments", "Deployment", true))
	require.Equal(t, []catalog.Group{
		one("", watchable("nodes", "Node", false), watchable("pods", "Pod", true)),
		one("apiextensions.k8s.io", watchable("customresourcedefinitions", "CustomResourceDefinition", false)),
		one("apiregistration.k8s.io", watchable("apiservices", "APIService", false)),
		apps,
	}, groups)
	got, err := cluster.Group(t.Context(), "apps")
	require.NoError(t, err)
	require.Equal(t, apps, got)
	got, err = cluster.Group(t.Context(), "absent.example.org")
	require.NoError(t, err)
	require.Empty(t, got.Versions)

	_, err = cluster.CRD(t.Context(), "widgets.example.org")
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	ctx, cancel := context.WithCancel(t.Context())
	err = cluster.WatchDefinitions(ctx, kube.CRDs, func(d catalog.Definition) {
		require.Equal(t, catalog.Definition{Change: catalog.Listed}, d, "there are none")
		cancel()
	})
	require.ErrorIs(t, err, context.Canceled)
	_, err = cluster.List(t.Context(), nodes, func(synchronizer.Object) error { return errors.New("there are none") })
	require.NoError(t, err)
}

func BenchmarkList(b *testing.B) {
	const n = 10000
	server, err := NewServer(GenerateSet(Deployments, 7, n))
	require.NoError(b, err)
	defer server.Close()
	cluster, err := kube.New(kube.Options{Config: server.RESTConfig()})
	require.NoError(b, err)
	defer cluster.Close()
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		bytes := 0
		_, err := cluster.List(b.Context(), Deployments, func(o synchronizer.Object) error { bytes += len(o.Body); return nil })
		require.NoError(b, err)
		b.SetBytes(int64(bytes))
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/item")
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N)/n, "cpu-µs/item")
}

// cpuTime is what the process has used, client and stub together.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
