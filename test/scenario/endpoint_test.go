// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
	"synchronizer/internal/app/client"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
	"synchronizer/test/kubetest"
)

// An alert that a node agent posts with the token of its service account is
// stored byte for byte; without the Role, or without a token, it is refused. Not
// parallel: who may call is read from the environment.
func TestEndpoint(t *testing.T) {
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps)
	ctx := t.Context()
	manifest, err := os.ReadFile("../../configuration/http-endpoint-rbac.yaml")
	require.NoError(t, err)
	require.NoError(t, w.cluster.Apply(ctx, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kubescape"}}`))
	for _, name := range []string{"node-agent", "stranger"} {
		require.NoError(t, w.cluster.Apply(ctx, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"`+name+`","namespace":"kubescape"}}`))
	}
	require.NoError(t, w.cluster.Apply(ctx, string(manifest)))
	t.Setenv("POD_NAMESPACE", "kubescape")
	b := startBackend(t, t.TempDir(), keyed)
	c, _, err := config.LoadClient(config.Env{ConfigDir: w.configFile(to(b))})
	require.NoError(t, err)
	c.HTTPEndpoint = &config.HTTPEndpoint{Resources: []config.Resource{{Group: "kubescape.io", Version: "v1", Resource: "runtimealerts"}}}
	opened, err := client.Open(ctx, app.NewProcess(newLog(t, "client")), c, kube.LoadOptions{Flag: w.kubeconfig}, false)
	require.NoError(t, err)
	background(t, "client", opened.Run)
	_, port, err := net.SplitHostPort(opened.EndpointAddress())
	require.NoError(t, err)

	body := []byte(`{"kind":"runtimealerts", "apiVersion":"kubescape.io/v1","metadata":{"name":"Shell-In-Pod","namespace":"Payments"},"spec":{"severity":1.0,"pid":9007199254740993}}`)
	post := func(token string) (int, string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+port+"/apis/v1/kubescape.io/v1/RuntimeAlerts", bytes.NewReader(body))
		require.NoError(t, err)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := b.api.HTTP.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	token := func(name string) string {
		token, err := w.cluster.ServiceAccountToken(ctx, "kubescape", name, "kubescape.io", time.Hour)
		require.NoError(t, err)
		return token
	}
	status, _ := post("")
	require.Equal(t, http.StatusUnauthorized, status)
	status, _ = post(token("stranger"))
	require.Equal(t, http.StatusForbidden, status)
	// Before the first connect everybody is told to come later.
	caller := token("node-agent")
	require.Eventually(t, func() bool {
		status, text := post(caller)
		require.Contains(t, []int{http.StatusAccepted, http.StatusTooManyRequests}, status, text)
		return status == http.StatusAccepted
	}, patience, glance)
	var compact bytes.Buffer // as a list shows it
	require.NoError(t, json.Compact(&compact, body))
	eventually(t, "the alert is stored", func() bool {
		list, err := b.api.Events(ctx, url.Values{"account": {"local"}, "cluster": {w.name}, "resource": {"runtimealerts"}, "full": {"true"}})
		require.NoError(t, err)
		return len(list.Items) == 1 && string(list.Items[0].Object) == compact.String()
	})
}
