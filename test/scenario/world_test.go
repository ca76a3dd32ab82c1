// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"synchronizer"
	"synchronizer/internal/diff"
	"synchronizer/internal/filter"
	"synchronizer/internal/kube"
	"synchronizer/internal/policy"
	"synchronizer/test/kubetest"
)

const (
	// patience is how long a condition may take that has to come true.
	patience = time.Minute
	// glance is how often it is looked at.
	glance = 20 * time.Millisecond
)

// Kinds that an API server has.
var (
	configMaps     = synchronizer.Kind{Version: "v1", Resource: "configmaps"}
	services       = synchronizer.Kind{Version: "v1", Resource: "services"}
	deployments    = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}
	storageClasses = synchronizer.Kind{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}
)

// world is a cluster as one test sees it: a namespace, some kinds, and what of
// them is to be synchronized.
type world struct {
	t       testing.TB
	cluster *kubetest.Cluster
	name    string // of the cluster, to the backend
	// namespace is where the objects are; it is called like the cluster.
	namespace string
	kinds     []synchronizer.Kind
	reader    synchronizer.Cluster // lists for the comparison
	// kubeconfig is how clients reach the API server; a test may put a proxy there.
	kubeconfig string

	revision atomic.Int64 // of the last change
}

// worlds counts them, so that a test can run again beside what it left.
var worlds atomic.Int64

var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// newWorld makes a namespace that is called after the test.
func newWorld(t testing.TB, cluster *kubetest.Cluster, kinds ...synchronizer.Kind) *world {
	t.Helper()
	name := strings.Trim(unfit.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-"), "-") + "-" + strconv.FormatInt(worlds.Add(1), 10)
	w := &world{t: t, cluster: cluster, name: name, namespace: name, kinds: kinds, kubeconfig: cluster.Kubeconfig}
	require.NoError(t, cluster.CreateNamespace(t.Context(), name))
	reader, err := kube.New(kube.Options{Config: cluster.RESTConfig()})
	require.NoError(t, err)
	t.Cleanup(reader.Close)
	w.reader = reader
	return w
}

// widgets is a kind of the test's own.
func (w *world) widgets() synchronizer.Kind {
	return synchronizer.Kind{Group: w.name + ".example.org", Version: "v1", Resource: "widgets"}
}

// define creates the kind widgets.
func (w *world) define() {
	w.t.Helper()
	kind := w.widgets()
	require.NoError(w.t, w.cluster.CreateCRD(w.t.Context(), kind.Group, kind.Version, kind.Resource, "Widget", kubetest.Namespaced))
}

// scope is what clients of this world carry.
func (w *world) scope() diff.Scope {
	return diff.Scope{
		Kinds:     w.kinds,
		Filter:    filter.New(filter.Rules{IncludeNamespaces: []string{w.namespace}}),
		Transform: policy.New(policy.LinkV1),
	}
}

// live lists the cluster.
func (w *world) live(stored diff.Set) (diff.Set, error) {
	scope := w.scope()
	scope.Stored = stored
	set, _, err := diff.Live(w.t.Context(), w.reader, scope)
	return set, err
}

// path is an object's on the API server, or its kind's if name is empty.
func (w *world) path(kind synchronizer.Kind, name string) string {
	path := "/apis/" + kind.GroupVersion()
	if kind.Group == "" {
		path = "/api/" + kind.Version
	}
	if kind != storageClasses {
		path += "/namespaces/" + w.namespace
	}
	path += "/" + kind.Resource
	if name != "" {
		path += "/" + name
	}
	return path
}

// manifest is a new object. Bulk is text to make it larger.
func (w *world) manifest(kind synchronizer.Kind, name, bulk string) []byte {
	kinds := map[string]string{"configmaps": "ConfigMap", "services": "Service", "deployments": "Deployment", "storageclasses": "StorageClass", "widgets": "Widget"}
	o := map[string]any{
		"apiVersion": kind.GroupVersion(), "kind": kinds[kind.Resource],
		"metadata": map[string]any{"name": name, "labels": map[string]any{"app": name}, "annotations": map[string]any{"revision": "0", "bulk": bulk}},
	}
	switch kind.Resource {
	case "configmaps":
		o["data"] = map[string]any{"key": name}
	case "services":
		o["spec"] = map[string]any{"selector": map[string]any{"app": name}, "ports": []any{map[string]any{"port": 80}}}
	case "deployments":
		labels := map[string]any{"app": name}
		o["spec"] = map[string]any{"replicas": 2, "selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{"containers": []any{map[string]any{
				"name": "main", "image": "registry.example.org/main:1",
				"env": []any{map[string]any{"name": "TOKEN", "value": "hidden"}},
			}}},
		}}
	case "storageclasses":
		o["provisioner"] = "example.org/none"
	case "widgets":
		o["spec"] = map[string]any{"size": 9007199254740993, "parts": []any{"b", "a"}}
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // maps and texts only
	}
	return text
}

// try methods return what the API server said; the others fail the test.

func (w *world) tryCreate(ctx context.Context, kind synchronizer.Kind, name, bulk string) error {
	_, err := w.cluster.Do(ctx, http.MethodPost, w.path(kind, ""), "", w.manifest(kind, name, bulk))
	return err
}

// tryChange gives an object the next revision.
func (w *world) tryChange(ctx context.Context, kind synchronizer.Kind, name string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"revision":%q}}}`, strconv.FormatInt(w.revision.Add(1), 10))
	_, err := w.cluster.Do(ctx, http.MethodPatch, w.path(kind, name), "application/merge-patch+json", []byte(patch))
	return err
}

func (w *world) tryDelete(ctx context.Context, kind synchronizer.Kind, name string) error {
	_, err := w.cluster.Do(ctx, http.MethodDelete, w.path(kind, name), "", nil)
	return err
}

func (w *world) create(kind synchronizer.Kind, names ...string) {
	w.t.Helper()
	for _, name := range names {
		require.NoError(w.t, w.tryCreate(w.t.Context(), kind, name, ""))
	}
}

func (w *world) change(kind synchronizer.Kind, names ...string) {
	w.t.Helper()
	for _, name := range names {
		require.NoError(w.t, w.tryChange(w.t.Context(), kind, name))
	}
}

func (w *world) delete(kind synchronizer.Kind, names ...string) {
	w.t.Helper()
	for _, name := range names {
		require.NoError(w.t, w.tryDelete(w.t.Context(), kind, name))
	}
}

// createMany creates objects prefix-000 to prefix-(n-1), each with bulk bytes
// more than it needs.
func (w *world) createMany(kind synchronizer.Kind, prefix string, n, bulk int) {
	w.t.Helper()
	g, ctx := errgroup.WithContext(w.t.Context())
	g.SetLimit(4)
	for i := range n {
		g.Go(func() error { return w.tryCreate(ctx, kind, numbered(prefix, i), strings.Repeat("x", bulk)) })
	}
	require.NoError(w.t, g.Wait())
}

func numbered(prefix string, i int) string { return fmt.Sprintf("%s-%03d", prefix, i) }

// names are numbered from to to, without the last.
func names(prefix string, from, to int) []string {
	var list []string
	for i := from; i < to; i++ {
		list = append(list, numbered(prefix, i))
	}
	return list
}

// uid is the live object's.
func (w *world) uid(kind synchronizer.Kind, name string) string {
	w.t.Helper()
	o, err := w.reader.Get(w.t.Context(), kind, w.namespaceOf(kind), name)
	require.NoError(w.t, err)
	return o.UID
}

func (w *world) namespaceOf(kind synchronizer.Kind) string {
	if kind == storageClasses {
		return ""
	}
	return w.namespace
}

// ignorable tells errors of a writer that meets its own deletions.
func ignorable(err error) bool {
	return err == nil || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

// eventually waits until the condition holds, at most patience long.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, glance, what)
}
