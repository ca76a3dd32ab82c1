// SPDX-License-Identifier: Apache-2.0

package kubetest_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/proxy"
)

// shared serves the tests that do not stop it. startErr goes to Require.
var (
	shared   *kubetest.Cluster
	startErr error
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(abandonVariable); dir != "" {
		os.Exit(abandon(dir))
	}
	os.Exit(kubetest.Main(m, func(_ string, c *kubetest.Cluster, err error) { shared, startErr = c, err }))
}

func TestDefinitionAndObject(t *testing.T) {
	kubetest.Require(t, startErr)
	ctx := t.Context()
	require.NoError(t, shared.CreateCRD(ctx, "example.org", "v1", "things", "Thing", kubetest.Namespaced))
	const thing = `
apiVersion: v1
kind: Namespace
metadata: {name: things}
---
apiVersion: example.org/v1
kind: Thing
metadata: {name: one, namespace: things}
spec: {size: 3}
`
	require.NoError(t, shared.Apply(ctx, thing))
	require.NoError(t, shared.Apply(ctx, strings.ReplaceAll(thing, "size: 3", "size: 4")))
	text, err := shared.Get(ctx, "/apis/example.org/v1/namespaces/things/things/one")
	require.NoError(t, err)
	var object struct{ Spec struct{ Size int } }
	require.NoError(t, json.Unmarshal(text, &object))
	require.Equal(t, 4, object.Spec.Size)

	names, err := shared.Kubectl(ctx, "get", "things", "-n", "things", "-o", "name")
	require.NoError(t, err)
	require.Equal(t, "thing.example.org/one\n", string(names))

	const one = `{"apiVersion":"example.org/v1","kind":"Thing","metadata":{"name":"one","namespace":"things"}}`
	require.NoError(t, shared.Delete(ctx, one))
	require.NoError(t, shared.Delete(ctx, one))
	_, err = shared.Get(ctx, "/apis/example.org/v1/namespaces/things/things/one")
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestVersionIsThatOfTheModule(t *testing.T) {
	kubetest.Require(t, startErr)
	text, err := shared.Get(t.Context(), "/version")
	require.NoError(t, err)
	module, err := os.ReadFile("../kubernetes/go.mod")
	require.NoError(t, err)
	var version struct{ GitVersion, Major, Minor string }
	require.NoError(t, json.Unmarshal(text, &version))
	require.Contains(t, string(module), "k8s.io/kubernetes "+version.GitVersion)
	require.True(t, strings.HasPrefix(version.GitVersion, "v"+version.Major+"."+version.Minor+"."))
}

func TestKubectlReportsWhatWentWrong(t *testing.T) {
	kubetest.Require(t, startErr)
	_, err := shared.Kubectl(t.Context(), "get", "nonsense")
	require.ErrorContains(t, err, `the server doesn't have a resource type "nonsense"`)
}

func TestApplyNamesTheObject(t *testing.T) {
	kubetest.Require(t, startErr)
	err := shared.Apply(t.Context(), `{"apiVersion":"no.such/v1","kind":"Thing","metadata":{"name":"x"}}`)
	require.ErrorContains(t, err, "applying Thing x")
	require.ErrorContains(t, err, "no.such/v1")
}

func TestUserHasExactlyItsRights(t *testing.T) {
	kubetest.Require(t, startErr)
	ctx := t.Context()
	path, err := shared.UserKubeconfig(ctx, "reader", []string{"readers"},
		kubetest.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"namespaces"}},
		kubetest.PolicyRule{Namespace: "mine", Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
	)
	require.NoError(t, err)
	as := func(args ...string) error {
		_, err := shared.Kubectl(ctx, append([]string{"--kubeconfig", path}, args...)...)
		return err
	}
	require.NoError(t, as("get", "namespaces"))
	require.NoError(t, as("create", "configmap", "a", "-n", "mine"))
	require.ErrorContains(t, as("create", "configmap", "a", "-n", "default"), "forbidden")
	require.ErrorContains(t, as("get", "secrets", "-A"), `User "reader" cannot list resource "secrets"`)
}

func TestServiceAccountToken(t *testing.T) {
	kubetest.Require(t, startErr)
	ctx := t.Context()
	token, err := shared.ServiceAccountToken(ctx, "agents", "agent", "", 10*time.Minute)
	require.NoError(t, err)
	path, err := shared.TokenKubeconfig("agent", token)
	require.NoError(t, err)
	list := []string{"--kubeconfig", path, "get", "pods", "-A"}
	_, err = shared.Kubectl(ctx, list...)
	require.ErrorContains(t, err, "system:serviceaccount:agents:agent")
	require.NoError(t, shared.Grant(ctx, kubetest.Subject{Namespace: "agents", Name: "agent"},
		kubetest.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}))
	_, err = shared.Kubectl(ctx, list...)
	require.NoError(t, err)

	// A token for somebody else is not one for the API server.
	token, err = shared.ServiceAccountToken(ctx, "agents", "agent", "synchronizer", 10*time.Minute)
	require.NoError(t, err)
	path, err = shared.TokenKubeconfig("elsewhere", token)
	require.NoError(t, err)
	_, err = shared.Kubectl(ctx, "--kubeconfig", path, "get", "pods", "-A")
	require.Error(t, err)
}

func TestRESTConfigAndProxy(t *testing.T) {
	kubetest.Require(t, startErr)
	link := proxy.New(t, strings.TrimPrefix(shared.URL, "https://"))
	config := shared.RESTConfig()
	config.Host = "https://" + link.Addr()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/api/v1/secrets", nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, 1, link.Counters().Open)

	path, err := shared.KubeconfigVia(link.Addr())
	require.NoError(t, err)
	_, err = shared.Kubectl(t.Context(), "--kubeconfig", path, "get", "namespace", "default")
	require.NoError(t, err)
	require.EqualValues(t, 2, link.Counters().Accepted)
	client.CloseIdleConnections()
}

func TestTwoClustersStopKillRestart(t *testing.T) {
	kubetest.Require(t, startErr)
	ctx := t.Context()
	cluster := kubetest.Start(t, kubetest.WithFlags("--event-ttl=2h"), kubetest.WithEtcdQuota(64<<20))
	require.NotEqual(t, shared.URL, cluster.URL)
	require.NoError(t, cluster.CreateNamespace(ctx, "kept"))
	_, err := shared.Get(ctx, "/api/v1/namespaces/kept")
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	for name, end := range map[string]func() error{"stop": cluster.Stop, "kill": cluster.Kill} {
		require.NoError(t, cluster.CreateNamespace(ctx, name))
		url, pid := cluster.URL, cluster.PID()
		require.NoError(t, syscall.Kill(pid, 0))
		require.NoError(t, end())
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
		require.Zero(t, cluster.PID())
		_, err = cluster.Get(ctx, "/readyz")
		require.ErrorContains(t, err, "refused")
		require.NoError(t, cluster.Restart())
		require.Equal(t, url, cluster.URL)
		for _, namespace := range []string{"kept", name} {
			_, err = cluster.Get(ctx, "/api/v1/namespaces/"+namespace)
			require.NoError(t, err)
		}
	}
	require.NoError(t, cluster.Stop())
}

func TestCompactAndRestartForgetsHistory(t *testing.T) {
	cluster := kubetest.Start(t)
	ctx := t.Context()
	text, err := cluster.Get(ctx, "/api/v1/namespaces/default")
	require.NoError(t, err)
	var object struct {
		Metadata struct{ ResourceVersion string }
	}
	require.NoError(t, json.Unmarshal(text, &object))
	require.NoError(t, cluster.CreateNamespace(ctx, "newer"))
	require.NoError(t, cluster.Compact(ctx))
	require.NoError(t, cluster.Restart())
	_, err = cluster.Get(ctx, "/api/v1/namespaces?resourceVersionMatch=Exact&resourceVersion="+object.Metadata.ResourceVersion)
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)
}

func TestBadFlagIsAnErrorWithTheLog(t *testing.T) {
	kubetest.Require(t, startErr)
	_, err := kubetest.StartMain(t.TempDir(), kubetest.WithFlags("--no-such-flag"))
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
}
