// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
	"synchronizer/internal/app/client"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
	"synchronizer/test/kubetest"
)

// TestDiffMeansWhatTheClientMeans: with wildcards, selectors, namespaces and the
// rules of a ConfigMap "synchronizer diff" compares what the client carries.
func TestDiffMeansWhatTheClientMeans(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w, excluded := newWorld(t, shared, configMaps), newWorld(t, shared, configMaps)
	w.define()
	w.kinds = append(w.kinds, w.widgets())
	w.create(configMaps, "in", "out")
	w.create(w.widgets(), "one", "two")
	excluded.create(configMaps, "in")
	_, err := shared.Do(t.Context(), http.MethodPost, "/apis/"+w.widgets().GroupVersion()+"/namespaces/"+excluded.namespace+"/widgets", "", w.manifest(w.widgets(), "hidden", ""))
	require.NoError(t, err)
	rules, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": w.namespace, "name": ruleMap},
		"data": map[string]any{"namespaceFilters.json": `{"includeNamespaces":"","excludeNamespaces":"` + excluded.namespace + `"}`},
	})
	require.NoError(t, err)
	require.NoError(t, shared.Apply(t.Context(), string(rules)))

	b := startBackend(t, t.TempDir(), keyed)
	dir := w.configFile(to(b))
	file := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var document map[string]map[string]any
	require.NoError(t, json.Unmarshal(text, &document))
	in := document["inCluster"]
	in["namespace"], in["namespaceFilterConfigMapName"] = w.namespace, ruleMap
	in["resources"] = []map[string]any{
		{"group": w.widgets().Group, "version": "*", "resource": "*", "strategy": "patch"},
		{"version": "v1", "resource": "configmaps", "labelSelector": "app=in", "namespaces": []string{w.namespace, excluded.namespace}},
	}
	text, err = json.Marshal(document)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	c, _, err := config.LoadClient(config.Env{ConfigDir: dir})
	require.NoError(t, err)
	opened, err := client.Open(t.Context(), app.NewProcess(newLog(t, "client")), c, kube.LoadOptions{Flag: w.kubeconfig}, false)
	require.NoError(t, err)
	background(t, "client", opened.Run)

	diff := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"diff", w.name, "--server", b.api.Server, "--token-file", b.tokenFile, "--kubeconfig", w.kubeconfig}, args...)...)
		cmd.Env = bareEnvironment()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := diff("--config", dir, "--wait", patience.String())
	require.NoError(t, err, out)
	require.Contains(t, out, ": 3 objects agree, 0 do not")
	out, err = diff() // the common kinds, without rules
	require.Error(t, err)
	require.Contains(t, out, "+ only in the cluster: /v1/configmaps "+w.namespace+"/out")
	require.Contains(t, out, "- only in the store:   "+w.widgets().String())
}
