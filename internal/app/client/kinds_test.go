// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/agent"
	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
	"synchronizer/internal/link/stock"
	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/faultproxy"
)

var configMaps = synchronizer.Kind{Version: "v1", Resource: "configmaps"}

// text is a log that can be read while it is written.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// world is a client between a real API server and a server of the field.
type world struct {
	t       *testing.T
	client  *Client
	session *stock.Session
	log     *text
	done    chan error
}

// newWorld starts a client; resources is JSON.
func newWorld(t *testing.T, kubeconfig, resources string) *world {
	t.Helper()
	server := stock.NewServer(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), fmt.Appendf(nil, `{"inCluster":{"serverUrl":%q,"account":"a","accessKey":"k",
		"clusterName":"c","healthPort":0,"resources":%s}}`, strings.Replace(server.URL, "http", "ws", 1), resources), 0o600))
	c, _, err := config.LoadClient(config.Env{}.With("CONFIG", dir))
	require.NoError(t, err)
	w := &world{t: t, log: &text{}, done: make(chan error, 1)}
	w.client, err = Open(t.Context(), app.NewProcess(w.log), c, kube.LoadOptions{Flag: kubeconfig}, true)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { w.done <- w.client.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-w.done)
		if t.Failed() {
			t.Log(w.log.String())
		}
	})
	w.session = server.Next()
	return w
}

// get reads the health port.
func (w *world) get(path string) (int, []byte) {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + w.client.health.Addr().String() + path)
	require.NoError(w.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(w.t, err)
	return response.StatusCode, body
}

func (w *world) kind(kind synchronizer.Kind) agent.KindStatus {
	w.t.Helper()
	_, body := w.get("/status")
	var status Status
	require.NoError(w.t, json.Unmarshal(body, &status))
	for _, k := range status.Kinds {
		if k.Name == kind.String() {
			return k
		}
	}
	return agent.KindStatus{}
}

func (w *world) waitState(kind synchronizer.Kind, state agent.State) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.kind(kind).State == state }, limit, 20*time.Millisecond, "%v is not %s but %s", kind, state, w.kind(kind).State)
}

func resource(kind synchronizer.Kind) string {
	return fmt.Sprintf(`{"group":%q,"version":%q,"resource":%q,"strategy":"copy"}`, kind.Group, kind.Version, kind.Resource)
}

func list(resources ...string) string { return "[" + strings.Join(resources, ",") + "]" }

func object(t *testing.T, c *kubetest.Cluster, apiVersion, kind, namespace, name string) {
	t.Helper()
	require.NoError(t, c.Apply(t.Context(), fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q}}`, apiVersion, kind, namespace, name)))
}

func deleteCRD(t *testing.T, c *kubetest.Cluster, name string) {
	t.Helper()
	_, err := c.Do(t.Context(), http.MethodDelete, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, "", nil)
	require.NoError(t, err)
}

// TestB011CRDComesLater waits for the state in place of the case's 30 s; the
// same in virtual time, with these, is in package agent.
func TestB011CRDComesLater(t *testing.T) {
	for name, resources := range map[string]string{
		"named": list(resource(synchronizer.Kind{Group: "later.example.org", Version: "v1", Resource: "laters"}), resource(configMaps)),
		"meant": list(`{"group":"later.example.org","version":"*","resource":"*"}`, resource(configMaps)),
	} {
		t.Run(name, func(t *testing.T) {
			cluster := shared(t)
			laters := synchronizer.Kind{Group: "later.example.org", Version: "v1", Resource: "laters"}
			w := newWorld(t, cluster.Kubeconfig, resources)
			w.waitState(configMaps, agent.StateWatching)
			if name == "named" {
				w.waitState(laters, agent.StateAwaited)
			}

			install := func(objects ...string) {
				require.NoError(t, cluster.CreateCRD(t.Context(), laters.Group, laters.Version, laters.Resource, "Later", kubetest.Namespaced))
				began := time.Now()
				for _, o := range objects {
					object(t, cluster, "later.example.org/v1", "Later", "default", o)
				}
				for _, o := range objects {
					w.session.WaitFor(stock.NewChecksum, laters, "default", o)
				}
				t.Logf("%d objects arrived %v after the kind was served", len(objects), time.Since(began))
			}
			install("one", "two")
			deleteCRD(t, cluster, "laters.later.example.org")
			for _, o := range []string{"one", "two"} {
				w.session.WaitFor(stock.ObjectDeleted, laters, "default", o)
			}
			w.waitState(laters, agent.StateAwaited)
			install("three")
			w.waitState(laters, agent.StateWatching)
			deleteCRD(t, cluster, "laters.later.example.org")
			w.waitState(laters, agent.StateAwaited)
		})
	}
}

// TestB075ForbiddenKind grants after 5 s in place of a minute; a minute passes in
// the virtual time of the test in package agent.
func TestB075ForbiddenKind(t *testing.T) {
	cluster := shared(t)
	secrets := synchronizer.Kind{Version: "v1", Resource: "secrets"}
	allowed := []synchronizer.Kind{configMaps, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "serviceaccounts"}, {Version: "v1", Resource: "pods"}, {Group: "apps", Version: "v1", Resource: "deployments"}}
	rule := func(resources ...string) kubetest.PolicyRule {
		return kubetest.PolicyRule{APIGroups: []string{"", "apps"}, Resources: resources, Verbs: []string{"get", "watch", "list"}}
	}
	kubeconfig, err := cluster.UserKubeconfig(t.Context(), "b075", nil, rule("configmaps", "services", "serviceaccounts", "pods", "deployments"))
	require.NoError(t, err)
	object(t, cluster, "v1", "ConfigMap", "default", "b075")
	object(t, cluster, "v1", "Secret", "default", "b075")
	resources := []string{resource(secrets)}
	for _, k := range allowed {
		resources = append(resources, resource(k))
	}
	began := time.Now()
	w := newWorld(t, kubeconfig, list(resources...))
	w.session.WaitFor(stock.NewChecksum, configMaps, "default", "b075")
	for _, k := range allowed {
		w.waitState(k, agent.StateWatching)
	}
	t.Logf("the five are watched after %v", time.Since(began))
	w.waitState(secrets, agent.StateForbidden)
	require.Contains(t, w.kind(secrets).Error, "forbidden")
	require.Contains(t, w.log.String(), "kind is forbidden")
	_, metrics := w.get("/metrics")
	require.Contains(t, string(metrics), `synchronizer_agent_kind_state{kind="/v1/secrets",role="client",state="forbidden"} 1`)
	denied := time.NewTimer(5 * time.Second)
	<-denied.C
	require.Equal(t, agent.StateForbidden, w.kind(secrets).State)

	require.NoError(t, cluster.Grant(t.Context(), kubetest.Subject{Name: "b075"}, rule("configmaps", "services", "serviceaccounts", "pods", "deployments", "secrets")))
	began = time.Now()
	w.session.WaitFor(stock.NewChecksum, secrets, "default", "b075")
	t.Logf("the granted kind came after %v", time.Since(began))
	w.waitState(secrets, agent.StateWatching)
}

// TestB095KindsNobodyInstalled watches requests and log for 10 s; a day passes in
// the virtual time of the test in package agent. What it costs is counted too.
func TestB095KindsNobodyInstalled(t *testing.T) {
	cluster := shared(t)
	proxy := faultproxy.New(t, cluster)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, proxy.Kubeconfig(kubeconfig))
	absent := []synchronizer.Kind{{Group: "cilium.io", Version: "v2", Resource: "ciliumnetworkpolicies"}, {Group: "projectcalico.org", Version: "v3", Resource: "networkpolicies"}}
	deployments := synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}
	require.NoError(t, cluster.Apply(t.Context(), `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"b095"},"spec":{
		"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"b"}]}}}}`))
	w := newWorld(t, kubeconfig, list(resource(absent[0]), resource(absent[1]), resource(deployments)))
	w.session.WaitFor(stock.NewChecksum, deployments, "default", "b095")
	w.waitState(deployments, agent.StateWatching)
	require.NotEmpty(t, proxy.Requests(faultproxy.Match{}))
	before, busy := len(proxy.Requests(faultproxy.Match{})), processorTime(t)
	idle := time.NewTimer(10 * time.Second)
	<-idle.C
	t.Logf("in 10 s: %d requests, %v of processor time, of test and proxy too", len(proxy.Requests(faultproxy.Match{}))-before, processorTime(t)-busy)
	require.LessOrEqual(t, len(proxy.Requests(faultproxy.Match{}))-before, 5)
	for _, k := range absent {
		require.Equal(t, agent.StateAwaited, w.kind(k).State)
		require.LessOrEqual(t, strings.Count(w.log.String(), k.String()), 3)
		require.Empty(t, proxy.Requests(faultproxy.List(k.Resource)))
	}
	require.NotContains(t, w.log.String(), `"level":"error"`)
	require.NotContains(t, w.log.String(), `"level":"warn`)
	code, _ := w.get("/healthz")
	require.Equal(t, http.StatusOK, code)
	code, _ = w.get("/readyz")
	require.Equal(t, http.StatusOK, code)
	require.Empty(t, w.done, "it runs")
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestSelected reads with rights in two namespaces only.
func TestSelected(t *testing.T) {
	cluster := shared(t)
	var rules []kubetest.PolicyRule
	for _, namespace := range []string{"selected-1", "selected-2"} {
		rules = append(rules, kubetest.PolicyRule{Namespace: namespace, APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "watch", "list"}})
	}
	kubeconfig, err := cluster.UserKubeconfig(t.Context(), "selected", nil, rules...)
	require.NoError(t, err)
	w := newWorld(t, kubeconfig, list(`{"version":"v1","resource":"configmaps","namespaces":"selected-1,selected-2","labelSelector":"in=yes"}`))
	w.waitState(configMaps, agent.StateWatching)
	put := func(namespace, name, in string) {
		require.NoError(t, cluster.Apply(t.Context(), fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q,"labels":{"in":%q}}}`, namespace, name, in)))
	}
	put("default", "a", "yes")
	put("selected-1", "out", "no")
	put("selected-1", "a", "yes")
	put("selected-2", "a", "yes")
	w.session.WaitFor(stock.NewChecksum, configMaps, "selected-1", "a")
	w.session.WaitFor(stock.NewChecksum, configMaps, "selected-2", "a")
	for _, f := range w.session.Received() {
		require.NotEqual(t, "default", f.Namespace)
		require.NotEqual(t, "out", f.Name)
	}
}
