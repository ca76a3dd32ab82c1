// SPDX-License-Identifier: Apache-2.0

package clustertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer"
)

// The kinds that the suite uses: a built-in one, and a custom resource that
// accepts any fields and that the cluster must serve (kind "Probe", namespaced).
var (
	ConfigMaps = synchronizer.Kind{Version: "v1", Resource: "configmaps"}
	Probes     = synchronizer.Kind{Group: "clustertest.synchronizer.example", Version: "v1", Resource: "probes"}
)

// Env is a cluster and the ways to change it.
type Env struct {
	Cluster synchronizer.Cluster
	// Put creates or replaces an object; Delete removes one.
	Put    func(ctx context.Context, kind synchronizer.Kind, namespace, name string, doc []byte) error
	Delete func(ctx context.Context, kind synchronizer.Kind, namespace, name string) error
	// CreateNamespace makes a namespace for one test.
	CreateNamespace func(ctx context.Context, name string) error
	// Compact makes all resourceVersions before the newest one gone.
	Compact func(ctx context.Context) error
	// Forbidden reads the same cluster without any right.
	Forbidden synchronizer.Cluster
}

// patience is how long something may take that takes milliseconds.
const patience = 30 * time.Second

// Run runs the suite against the cluster that start gives.
func Run(t *testing.T, start func(t *testing.T) *Env) {
	env := start(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"ListIsCompleteOverPages", listIsComplete},
		{"SameBytesEverywhere", sameBytes},
		{"WatchFromListSeesEverythingInOrder", watchInOrder},
		{"WatchWithoutVersionStartsWithWhatExists", watchFromNothing},
		{"EmptyList", emptyList},
		{"NotFound", notFound},
		{"KindNotServed", kindNotServed},
		{"Forbidden", forbidden},
		{"ErrorOfCallbackEnds", callbackEnds},
		{"CancelEnds", cancelEnds},
		{"GoneAfterCompaction", goneAfterCompaction}, // last: it may restart the server
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &suite{Env: env, namespace: "clustertest-" + strings.ToLower(test.name)}
			require.NoError(t, env.CreateNamespace(t.Context(), s.namespace))
			test.run(t, s)
		})
	}
}

type suite struct {
	*Env
	namespace string // of the test alone
}

func (s *suite) doc(kind synchronizer.Kind, name, content string) []byte {
	objectKind, more := "ConfigMap", ""
	if kind == Probes {
		objectKind, more = "Probe", `,"spec":{"large":9007199254740993,"z":1,"a":[1.5,true,null],"text":"<&>\u2028 é"}`
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q,"labels":{"of":"clustertest"}},"data":{"content":%q,"text":"<&>\u2028 é"}%s}`,
		kind.GroupVersion(), objectKind, s.namespace, name, content, more)
}

func (s *suite) put(t *testing.T, kind synchronizer.Kind, name, content string) {
	t.Helper()
	require.NoError(t, s.Put(t.Context(), kind, s.namespace, name, s.doc(kind, name, content)))
}

// list reads what the test has made; bodies are copied.
func (s *suite) list(t *testing.T, kind synchronizer.Kind) (objects []synchronizer.Object, version string) {
	t.Helper()
	version, err := s.Cluster.List(t.Context(), kind, func(o synchronizer.Object) error {
		if o.Namespace == s.namespace {
			o.Body = slices.Clone(o.Body)
			objects = append(objects, o)
		}
		return o.Err
	})
	require.NoError(t, err)
	require.NotEmpty(t, version)
	return objects, version
}

// watch collects events about what the test has made, until stop is called,
// which gives the watch's error.
func (s *suite) watch(t *testing.T, kind synchronizer.Kind, from string) (events <-chan synchronizer.WatchEvent, stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	seen, done := make(chan synchronizer.WatchEvent, 1000), make(chan error, 1)
	go func() {
		done <- s.Cluster.Watch(ctx, kind, from, func(e synchronizer.WatchEvent) error {
			if e.Object.Namespace == s.namespace {
				e.Object.Body = slices.Clone(e.Object.Body)
				seen <- e
			}
			return nil
		})
	}()
	return seen, func() error {
		cancel()
		return receive(t, done)
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		require.FailNow(t, "nothing came in time")
		panic("unreachable")
	}
}

func listIsComplete(t *testing.T, s *suite) {
	const n = 1200
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	var want []string
	for i := range n {
		name := fmt.Sprintf("object-%04d", i)
		want = append(want, name)
		group.Go(func() error { return s.Put(ctx, ConfigMaps, s.namespace, name, s.doc(ConfigMaps, name, name)) })
	}
	require.NoError(t, group.Wait())
	objects, _ := s.list(t, ConfigMaps)
	var got []string
	for _, o := range objects {
		got = append(got, o.Name)
		require.NotEmpty(t, o.UID)
		require.NotEmpty(t, o.ResourceVersion)
	}
	require.Equal(t, want, got, "in the order of the storage, each once")
}

func sameBytes(t *testing.T, s *suite) {
	for _, kind := range []synchronizer.Kind{ConfigMaps, Probes} {
		t.Run(kind.Resource, func(t *testing.T) {
			_, version := s.list(t, kind)
			s.put(t, kind, "same", "<a&b>")
			events, stop := s.watch(t, kind, version)
			event := receive(t, events)
			require.ErrorIs(t, stop(), context.Canceled)
			got, err := s.Cluster.Get(t.Context(), kind, s.namespace, "same")
			require.NoError(t, err)
			listed, _ := s.list(t, kind)
			require.Len(t, listed, 1)
			require.Equal(t, string(got.Body), string(event.Object.Body), "GET and WATCH")
			require.Equal(t, string(got.Body), string(listed[0].Body), "GET and LIST")
			require.Equal(t, got, event.Object)
			require.Equal(t, got, listed[0])
			require.Contains(t, string(got.Body), `"kind"`)
			require.Contains(t, string(got.Body), `"apiVersion"`)
			require.Contains(t, string(got.Body), `"resourceVersion":"`+got.ResourceVersion+`"`)
		})
	}
}

func watchInOrder(t *testing.T, s *suite) {
	for _, kind := range []synchronizer.Kind{ConfigMaps, Probes} {
		t.Run(kind.Resource, func(t *testing.T) {
			s.put(t, kind, "before", "0")
			_, version := s.list(t, kind)
			s.put(t, kind, "a", "1") // before the watch starts
			events, stop := s.watch(t, kind, version)
			s.put(t, kind, "b", "1")
			s.put(t, kind, "a", "2")
			require.NoError(t, s.Delete(t.Context(), kind, s.namespace, "b"))
			s.put(t, kind, "b", "2")
			require.NoError(t, s.Delete(t.Context(), kind, s.namespace, "before"))
			var got []string
			var last synchronizer.WatchEvent
			for range 6 {
				last = receive(t, events)
				got = append(got, fmt.Sprint(last.Type, " ", last.Object.Name))
			}
			require.Equal(t, []string{"1 a", "1 b", "2 a", "3 b", "1 b", "3 before"}, got)
			require.Contains(t, string(last.Object.Body), `"content":"0"`, "a deletion carries the last state")
			require.ErrorIs(t, stop(), context.Canceled)

			events, stop = s.watch(t, kind, last.Object.ResourceVersion)
			s.put(t, kind, "a", "3")
			require.Equal(t, synchronizer.WatchModified, receive(t, events).Type, "resuming sees only what came later")
			require.ErrorIs(t, stop(), context.Canceled)
		})
	}
}

func watchFromNothing(t *testing.T, s *suite) {
	s.put(t, Probes, "there", "1")
	events, stop := s.watch(t, Probes, "")
	require.Equal(t, synchronizer.WatchAdded, receive(t, events).Type)
	require.ErrorIs(t, stop(), context.Canceled)
}

func emptyList(t *testing.T, s *suite) {
	objects, _ := s.list(t, Probes)
	require.Empty(t, objects)
}

func notFound(t *testing.T, s *suite) {
	for _, kind := range []synchronizer.Kind{ConfigMaps, Probes} {
		_, err := s.Cluster.Get(t.Context(), kind, s.namespace, "nothing")
		require.ErrorIs(t, err, synchronizer.ErrNotFound)
		require.NotErrorIs(t, err, synchronizer.ErrKindNotServed)
		_, err = s.Cluster.Get(t.Context(), kind, "no-such-namespace", "nothing")
		require.ErrorIs(t, err, synchronizer.ErrNotFound)
	}
}

func kindNotServed(t *testing.T, s *suite) {
	for _, kind := range []synchronizer.Kind{
		{Group: "nobody.synchronizer.example", Version: "v1", Resource: "things"},
		{Version: "v1", Resource: "things"},
		{Version: "v9", Resource: "pods"},
		{Group: Probes.Group, Version: "v9", Resource: Probes.Resource},
	} {
		_, err := s.Cluster.List(t.Context(), kind, func(synchronizer.Object) error { return nil })
		require.ErrorIs(t, err, synchronizer.ErrKindNotServed, "list %v", kind)
		err = s.Cluster.Watch(t.Context(), kind, "1", func(synchronizer.WatchEvent) error { return nil })
		require.ErrorIs(t, err, synchronizer.ErrKindNotServed, "watch %v", kind)
		_, err = s.Cluster.Get(t.Context(), kind, "default", "x")
		require.ErrorIs(t, err, synchronizer.ErrKindNotServed, "get %v", kind)
		require.NotErrorIs(t, err, synchronizer.ErrNotFound, "get %v", kind)
	}
}

func forbidden(t *testing.T, s *suite) {
	_, err := s.Forbidden.List(t.Context(), ConfigMaps, func(synchronizer.Object) error { return nil })
	require.ErrorIs(t, err, synchronizer.ErrForbidden)
	err = s.Forbidden.Watch(t.Context(), ConfigMaps, "1", func(synchronizer.WatchEvent) error { return nil })
	require.ErrorIs(t, err, synchronizer.ErrForbidden)
	_, err = s.Forbidden.Get(t.Context(), ConfigMaps, s.namespace, "x")
	require.ErrorIs(t, err, synchronizer.ErrForbidden)
}

func callbackEnds(t *testing.T, s *suite) {
	own := errors.New("enough")
	s.put(t, ConfigMaps, "a", "1")
	s.put(t, ConfigMaps, "b", "1")
	calls := 0
	_, err := s.Cluster.List(t.Context(), ConfigMaps, func(synchronizer.Object) error { calls++; return own })
	require.Equal(t, own, err)
	require.Equal(t, 1, calls)
	err = s.Cluster.Watch(t.Context(), ConfigMaps, "", func(synchronizer.WatchEvent) error { calls++; return own })
	require.Equal(t, own, err)
	require.Equal(t, 2, calls)
}

func cancelEnds(t *testing.T, s *suite) {
	s.put(t, ConfigMaps, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Cluster.List(ctx, ConfigMaps, func(synchronizer.Object) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled, "a list that was cut is not complete")
	_, version := s.list(t, ConfigMaps)
	_, stop := s.watch(t, ConfigMaps, version)
	require.ErrorIs(t, stop(), context.Canceled)
	_, err = s.Cluster.Get(ctx, ConfigMaps, s.namespace, "a")
	require.ErrorIs(t, err, context.Canceled)
}

func goneAfterCompaction(t *testing.T, s *suite) {
	_, old := s.list(t, ConfigMaps)
	s.put(t, ConfigMaps, "a", "1")
	s.put(t, ConfigMaps, "a", "2")
	require.NoError(t, s.Compact(t.Context()))
	err := s.Cluster.Watch(t.Context(), ConfigMaps, old, func(synchronizer.WatchEvent) error { return nil })
	require.ErrorIs(t, err, synchronizer.ErrGone)
	objects, version := s.list(t, ConfigMaps)
	require.Len(t, objects, 1)
	events, stop := s.watch(t, ConfigMaps, version)
	s.put(t, ConfigMaps, "a", "3")
	require.Equal(t, synchronizer.WatchModified, receive(t, events).Type)
	require.ErrorIs(t, stop(), context.Canceled)
}
