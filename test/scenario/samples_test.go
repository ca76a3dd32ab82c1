// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/diff"
	"synchronizer/test/brokers"
	"synchronizer/test/kubetest"
)

// samples are the configurations of the server that the README names, with the
// script that starts their broker and the variable that holds its address.
var samples = []struct {
	folder, script, variable, scheme string
}{
	{folder: "server-embedded"},
	{folder: "server", script: "pulsar.sh", variable: "BACKEND.PULSARCONFIG.URL", scheme: "pulsar://"},
	{folder: "server-kafka", script: "kafka.sh", variable: "BACKEND.MESSAGEQUEUE.KAFKACONFIG.BOOTSTRAPSERVERS"},
	{folder: "server-postgres", script: "postgres.sh"},
	{folder: "server-nats", script: "nats.sh", variable: "SYNCHRONIZER_BACKEND_MESSAGEQUEUE_NATSCONFIG_SERVERS", scheme: "nats://"},
}

// What the README tells people to type: the script that starts a broker, and the
// two programs with the samples of this repository. What happens in a real
// cluster arrives in the store.
func TestSamples(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	programs := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", programs, "synchronizer/cmd/server", "synchronizer/cmd/client").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, sample := range samples {
		t.Run(sample.folder, func(t *testing.T) {
			w := newWorld(t, shared, configMaps, deployments)
			w.createMany(configMaps, "settings", 5, 0)
			w.create(deployments, "web")

			dir, at := t.TempDir(), reserve(t)
			require.NoError(t, os.CopyFS(filepath.Join(dir, "configuration"), os.DirFS("../../configuration")))
			server := exec.Command(filepath.Join(programs, "server"))
			server.Dir = dir
			server.Env = []string{
				"CONFIG=./configuration/" + sample.folder, "SYNCHRONIZER_BACKEND_LISTEN=" + at.clients,
				"SYNCHRONIZER_API_LISTEN=" + at.api, "SYNCHRONIZER_BACKEND_HEALTHPORT=0",
			}
			if sample.script != "" {
				server.Env = append(server.Env, startScript(t, sample.script, sample.variable, sample.scheme)...)
			}
			backendProcess := startCommand(t, "server", server)
			token := filepath.Join(dir, "data", "api-token")
			eventually(t, "the server has made its token", func() bool {
				require.True(t, backendProcess.runs(), "the server has ended")
				_, err := os.Stat(token)
				return err == nil
			})
			b := &backend{clients: at.clients, tokenFile: token}
			b.api = newAPI(t, at.api, secret(t, filepath.Join(dir, "data"), "api-token"))

			services := filepath.Join(dir, "configuration", "services.json")
			text, err := os.ReadFile(services)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(services, []byte(strings.ReplaceAll(string(text), "127.0.0.1:8080", at.clients)), 0o600))
			client := exec.Command(filepath.Join(programs, "client"))
			client.Dir = dir
			client.Env = []string{
				"SERVICES=./configuration/services.json", "CLUSTER_CONFIG=./configuration/clusterData.json", "CONFIG=./configuration/client",
				"KUBECONFIG=" + w.kubeconfig, "SYNCHRONIZER_INCLUSTER_HEALTHPORT=0", "SYNCHRONIZER_INCLUSTER_INCLUDENAMESPACES=" + w.namespace,
			}
			clientProcess := startCommand(t, "client", client)
			account, cluster := sampleIdentity(t)
			has := func(what string, name string, want bool) {
				t.Helper()
				eventually(t, what, func() bool {
					stored, err := b.stored(t.Context(), account, cluster)
					_, there := stored[diff.Key{Kind: configMaps, Namespace: w.namespace, Name: name}]
					return err == nil && there == want
				})
			}
			has("the last of the first ones is stored", "settings-004", true)
			w.create(configMaps, "later")
			has("a creation is stored", "later", true)
			w.delete(configMaps, "settings-001")
			has("a deletion is stored", "settings-001", false)
			require.True(t, clientProcess.runs(), "the client has ended")
			require.True(t, backendProcess.runs(), "the server has ended")
		})
	}
}

// sampleIdentity is who the sample client says it is.
func sampleIdentity(t *testing.T) (account, cluster string) {
	t.Helper()
	var client struct{ InCluster struct{ Account string } }
	var data struct{ ClusterName string }
	for name, target := range map[string]any{"client/config.json": &client, "clusterData.json": &data} {
		text, err := os.ReadFile(filepath.Join("../../configuration", name))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, target))
	}
	require.NoError(t, synchronizer.ClusterID{Account: client.InCluster.Account, Cluster: data.ClusterName}.Validate())
	return client.InCluster.Account, data.ClusterName
}

// startScript starts a broker with a script of this repository, on a free port and
// until the test ends. It returns the variables that lead a server to it.
func startScript(t *testing.T, name, variable, scheme string) []string {
	t.Helper()
	_, port, err := net.SplitHostPort(reserve(t).api)
	require.NoError(t, err)
	run := func(verb string) (string, error) {
		cmd := exec.Command(filepath.Join("../../scripts", name), verb, "--port", port)
		cmd.Stderr = newLog(t, name)
		out, err := cmd.Output()
		return string(out), err
	}
	t.Cleanup(func() {
		_, err := run("stop")
		require.NoError(t, err)
		removeData(t, strings.TrimSuffix(name, ".sh"), port)
	})
	said, err := run("start")
	require.NoError(t, err)
	if url := regexp.MustCompile(`"url": "(postgres:.*?)"`).FindStringSubmatch(said); url != nil {
		return []string{"SYNCHRONIZER_STORE_POSTGRES_URL=" + url[1]}
	}
	address := scheme + "127.0.0.1:" + port
	require.Contains(t, said, address, "what to put into the configuration")
	variables := []string{variable + "=" + address}
	if admin := regexp.MustCompile(`"adminUrl": "(.*?)"`).FindStringSubmatch(said); admin != nil {
		variables = append(variables, "BACKEND.PULSARCONFIG.ADMINURL="+admin[1])
	}
	return variables
}

// removeData removes what a script keeps of a program that is not to come back.
func removeData(t *testing.T, program, port string) {
	t.Helper()
	cache, err := brokers.CacheFolder()
	require.NoError(t, err)
	dir := filepath.Join(cache, program, "broker-"+port)
	if program == "postgres" {
		if os.Getuid() == 0 && os.Getenv("SYNCHRONIZER_CACHE") == "" {
			cache = "/var/cache/synchronizer/brokers" // it does not run as root
		}
		dir = filepath.Join(cache, program, "server-"+port)
	}
	require.DirExists(t, dir)
	require.NoError(t, os.RemoveAll(dir))
}
