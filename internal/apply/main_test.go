// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"synchronizer"
	"synchronizer/internal/kube"
	"synchronizer/internal/policy"
	"synchronizer/internal/rawjson"
	"synchronizer/test/kubetest"
)

var (
	server   *kubetest.Cluster
	startErr error
)

func TestMain(m *testing.M) {
	os.Exit(kubetest.Main(m, func(_ string, c *kubetest.Cluster, err error) { server, startErr = c, err }))
}

// environment is a namespace of the real API server, an Applier on it and what
// the Applier sent.
type environment struct {
	*Applier
	t         *testing.T
	namespace string
	cluster   *watched
}

// start prepares a namespace that is called after the test.
func start(t *testing.T, rules ...policy.Rule) *environment {
	t.Helper()
	kubetest.Require(t, startErr)
	namespace := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	if len(namespace) > 60 {
		namespace = namespace[:60]
	}
	require.NoError(t, server.CreateNamespace(t.Context(), namespace))
	transform, problems := policy.Compile(policy.LinkV1, rules)
	require.Empty(t, problems)
	e := &environment{t: t, namespace: namespace, cluster: &watched{Cluster: connect(t, server.RESTConfig())}}
	e.Applier = New(Options{Cluster: e.cluster, Policy: transform, Strategy: everything})
	return e
}

func everything(synchronizer.Kind) Strategy { return Patch }

func connect(t testing.TB, config *rest.Config) *kube.Cluster {
	t.Helper()
	c, err := kube.New(kube.Options{Config: config})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// as gives an Applier with the rights of rules only.
func (e *environment) as(name string, rules ...kubetest.PolicyRule) *Applier {
	e.t.Helper()
	path, err := server.UserKubeconfig(e.t.Context(), name, nil, rules...)
	require.NoError(e.t, err)
	config, _, err := kube.LoadConfig(kube.LoadOptions{Flag: path})
	require.NoError(e.t, err)
	return New(Options{Cluster: connect(e.t, config), Policy: e.options.Policy, Strategy: everything})
}

// defineWidgets defines a kind of any shape; its status is a subresource or
// plain data.
func defineWidgets(t testing.TB) {
	t.Helper()
	require.NoError(t, server.CreateCRD(t.Context(), "example.org", "v1", "widgets", "Widget", kubetest.Namespaced))
}

func (e *environment) path(kind synchronizer.Kind, name string) string {
	root := "/apis/" + kind.GroupVersion()
	if kind.Group == "" {
		root = "/api/" + kind.Version
	}
	if e.namespace != "" {
		root += "/namespaces/" + e.namespace
	}
	root += "/" + kind.Resource
	if name == "" {
		return root
	}
	return root + "/" + name
}

// make creates an object as somebody else.
func (e *environment) make(kind synchronizer.Kind, doc string) {
	e.t.Helper()
	_, err := server.Do(e.t.Context(), http.MethodPost, e.path(kind, ""), "", []byte(doc))
	require.NoError(e.t, err)
}

// alter changes an object as somebody else.
func (e *environment) alter(kind synchronizer.Kind, name, patch string) {
	e.t.Helper()
	_, err := server.Do(e.t.Context(), http.MethodPatch, e.path(kind, name), "application/merge-patch+json", []byte(patch))
	require.NoError(e.t, err)
}

// now reads an object.
func (e *environment) now(kind synchronizer.Kind, name string) string {
	e.t.Helper()
	raw, err := server.Get(e.t.Context(), e.path(kind, name))
	require.NoError(e.t, err)
	return string(raw)
}

// at reads one place of an object.
func (e *environment) at(kind synchronizer.Kind, name string, path ...string) string {
	e.t.Helper()
	raw, err := rawjson.Get([]byte(e.now(kind, name)), path...)
	require.NoError(e.t, err)
	return string(raw)
}

// shows gives an object as the backend has it.
func (e *environment) shows(kind synchronizer.Kind, name string) string {
	e.t.Helper()
	o, err := e.cluster.Get(e.t.Context(), kind, e.namespace, name)
	require.NoError(e.t, err)
	raw, err := e.options.Policy.Apply(nil, kind.Group, kind.Resource, e.namespace, o.Body)
	require.NoError(e.t, err)
	return string(raw)
}

// puts puts an object and wants an outcome.
func (e *environment) puts(want Outcome, kind synchronizer.Kind, name, doc string) Result {
	e.t.Helper()
	result, err := e.Put(e.t.Context(), kind, e.namespace, name, []byte(doc))
	require.NoError(e.t, err)
	require.Equal(e.t, want, result.Outcome, "%+v", result)
	return result
}

// watched notes what is written, and lets somebody else act after a Get.
type watched struct {
	Cluster

	mu       sync.Mutex
	created  [][]byte
	updated  [][]byte
	afterGet func()
}

func (w *watched) Get(ctx context.Context, kind synchronizer.Kind, namespace, name string) (synchronizer.Object, error) {
	o, err := w.Cluster.Get(ctx, kind, namespace, name)
	w.mu.Lock()
	act := w.afterGet
	w.mu.Unlock()
	if act != nil {
		act()
	}
	return o, err
}

func (w *watched) Create(ctx context.Context, kind synchronizer.Kind, namespace string, body []byte) (synchronizer.Object, error) {
	w.mu.Lock()
	w.created = append(w.created, body)
	w.mu.Unlock()
	return w.Cluster.Create(ctx, kind, namespace, body)
}

func (w *watched) Update(ctx context.Context, kind synchronizer.Kind, namespace, name string, body []byte) (synchronizer.Object, error) {
	w.mu.Lock()
	w.updated = append(w.updated, body)
	w.mu.Unlock()
	return w.Cluster.Update(ctx, kind, namespace, name, body)
}

func (w *watched) meanwhile(act func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.afterGet = act
}
