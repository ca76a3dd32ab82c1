// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPolicyTestEntries: wildcards, selectors and namespaces of the configured
// kinds decide whether an object leaves.
func TestPolicyTestEntries(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("config.json", []byte(`{"inCluster": {"resources": [
 {"version": "v1", "resource": "*"},
 {"version": "v1", "resource": "configmaps", "labelSelector": "team=a", "fieldSelector": "metadata.name!=out,spec.x=y", "namespaces": "a,b"},
 {"group": "example.com", "version": "*", "resource": "*"}]}}`), 0o600))
	object := func(apiVersion, kind, namespace, name, team string) string {
		return `{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{"namespace":"` + namespace + `","name":"` + name + `","labels":{"team":"` + team + `"}}}`
	}
	for _, c := range []struct{ name, object, reason string }{
		{"a wildcard means it", object("v1", "Service", "a", "x", ""), ""},
		{"a wildcard never means it", object("v1", "Secret", "a", "x", ""), "inCluster.resources has no /v1/secrets"},
		{"any version", object("example.com/v3", "Gateway", "a", "x", ""), ""},
		{"another group", object("example.org/v3", "Gateway", "a", "x", ""), "inCluster.resources has no example.org/v3/gateways"},
		{"it is selected", object("v1", "ConfigMap", "a", "x", "a"), ""},
		{"labels", object("v1", "ConfigMap", "a", "x", "b"), `labelSelector "team=a"`},
		{"fields", object("v1", "ConfigMap", "a", "out", "a"), "fieldSelector"},
		{"namespaces", object("v1", "ConfigMap", "c", "x", "a"), "in the namespaces [a b] only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, code := runPolicyTest(t, c.object, "-f", "-", "--config", "config.json")
			require.Zero(t, code, stderr)
			if c.reason == "" {
				require.NotEmpty(t, stdout)
				require.NotContains(t, stderr, "does not leave")
				return
			}
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.reason)
		})
	}
}

// TestPolicyTestDiscovery: a cluster tells plural names, and which version a
// wildcard means.
func TestPolicyTestDiscovery(t *testing.T) {
	t.Chdir(t.TempDir())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		if r.URL.Path == "/api" {
			_, _ = w.Write([]byte(`{"kind":"APIGroupDiscoveryList","items":[]}`))
			return
		}
		const resources = `"freshness":"Current","resources":[{"resource":"oxen","scope":"Namespaced","responseKind":{"kind":"Ox"},"verbs":["get","list","watch"]}]`
		_, _ = w.Write([]byte(`{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"example.com"},"versions":[
			{"version":"v2",` + resources + `},{"version":"v1",` + resources + `}]}]}`))
	}))
	defer server.Close()
	kubeconfig := newProgram(t).kubeconfig(server.URL)
	require.NoError(t, os.WriteFile("config.json", []byte(`{"inCluster": {"resources": [{"group": "example.com", "version": "*", "resource": "*"}]}}`), 0o600))
	for version, reason := range map[string]string{"v2": "", "v1": "inCluster.resources has version v2 of its kind"} {
		_, stderr, code := runPolicyTest(t, `{"apiVersion":"example.com/`+version+`","kind":"Ox","metadata":{"name":"x"}}`,
			"-f", "-", "--config", "config.json", "--kubeconfig", kubeconfig)
		require.Zero(t, code, stderr)
		require.Contains(t, stderr, "example.com/"+version+"/oxen x")
		if reason == "" {
			require.NotContains(t, stderr, "does not leave")
		} else {
			require.Contains(t, stderr, reason)
		}
	}
}
