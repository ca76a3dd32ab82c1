// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
	"synchronizer/internal/kube/recorded"
	"synchronizer/internal/link/stock"
)

const limit = time.Minute

// TestDependencies holds the client's program to what a client needs: it runs in
// every cluster, and every package in it costs memory there.
func TestDependencies(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "synchronizer/cmd/client").Output()
	require.NoError(t, err)
	packages := strings.Fields(string(out))
	require.Contains(t, packages, "synchronizer/internal/agent")
	for _, p := range packages {
		for _, refused := range []string{
			"synchronizer/internal/queue", "synchronizer/internal/store", "synchronizer/internal/api", "synchronizer/internal/relay",
			"synchronizer/internal/ingest", "github.com/nats-io", "modernc.org/sqlite", "k8s.io/api",
		} {
			require.False(t, p == refused || strings.HasPrefix(p, refused+"/"), "the client links %s", p)
		}
	}
}

// load makes a client's configuration.
func load(t *testing.T, server string, more ...string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"inCluster":{"serverUrl":"`+server+`","account":"a","accessKey":"k",
		"clusterName":"c","healthPort":0,`+strings.Join(more, "")+`"resources":[{"group":"apps","version":"v1","resource":"deployments","strategy":"copy"}]}}`), 0o600))
	c, _, err := config.LoadClient(config.Env{}.With("CONFIG", dir))
	require.NoError(t, err)
	return c
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(name, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"x","cluster":{"server":"`+
		server+`"}}],"users":[{"name":"x","user":{}}],"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}]}`), 0o600))
	return name
}

// TestRun synchronizes from an API server to a server of the field, and ends.
func TestRun(t *testing.T) {
	cluster, err := recorded.NewServer(recorded.GenerateSet(recorded.Deployments, 1, 3))
	require.NoError(t, err)
	defer cluster.Close()
	server := stock.NewServer(t)
	c, err := Open(t.Context(), app.NewProcess(io.Discard), load(t, strings.Replace(server.URL, "http", "ws", 1),
		`"policy":[{"match":{"resource":"deployments","group":"apps"},"paths":["spec"],"action":"drop"}],`), kube.LoadOptions{Flag: kubeconfig(t, cluster.URL)}, true)
	require.NoError(t, err)
	require.Error(t, c.Ready())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	session := server.Next()
	require.Equal(t, "c", session.Header.Get("X-API-CLUSTER"))
	for item := range recorded.Generate(recorded.Deployments, 1, 3) {
		session.Wait(func(f *stock.Frame) bool { return f.Namespace == item.Namespace && f.Name == item.Name })
	}
	require.Eventually(t, func() bool { return c.Ready() == nil }, limit, time.Millisecond)
	for item := range recorded.Generate(recorded.Deployments, 1, 1) {
		require.NoError(t, session.Send([]byte(`{"Depth":3,"Event":4,"Kind":{"Group":"apps","Version":"v1","Resource":"deployments","AdditionalProperties":null},"MsgId":"m","Namespace":"`+
			item.Namespace+`","Name":"`+item.Name+`","ResourceVersion":0,"BaseObject":"","AdditionalProperties":null}`)))
		put := session.WaitFor(stock.PutObject, recorded.Deployments, item.Namespace, item.Name)
		require.Contains(t, string(item.Body), `"image"`)
		require.NotContains(t, put.Object, `"image"`, "inCluster.policy is applied")
	}
	cancel()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(limit):
		require.FailNow(t, "the client does not stop")
	}
}

func TestOpenErrors(t *testing.T) {
	_, err := Open(t.Context(), app.NewProcess(io.Discard), load(t, "ws://127.0.0.1:1"), kube.LoadOptions{Flag: "/nonexistent"}, false)
	require.ErrorContains(t, err, "finding the API server: reading kubeconfig /nonexistent (from --kubeconfig)")

	nameless := load(t, "ws://127.0.0.1:1")
	nameless.InCluster.NamespaceFilterConfigMapName = "namespace-filters"
	_, err = Open(t.Context(), app.NewProcess(io.Discard), nameless, kube.LoadOptions{Flag: kubeconfig(t, "http://127.0.0.1:1")}, false)
	require.ErrorContains(t, err, "inCluster.namespace: missing")

	busy, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
	require.NoError(t, err)
	defer busy.Close()
	c := load(t, "ws://127.0.0.1:1")
	c.InCluster.HealthPort = busy.Addr().(*net.TCPAddr).Port
	_, err = Open(t.Context(), app.NewProcess(io.Discard), c, kube.LoadOptions{Flag: kubeconfig(t, "http://127.0.0.1:1")}, true)
	require.ErrorContains(t, err, "(inCluster.healthPort)")
}
