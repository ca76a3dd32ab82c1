// SPDX-License-Identifier: Apache-2.0

package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// variables makes an Env of a folder with config.json and some variables.
func variables(dir string, pairs ...string) Env {
	env := Env{ConfigDir: dir}
	for i := 0; i < len(pairs); i += 2 {
		env = env.With(pairs[i], pairs[i+1])
	}
	return env
}

// folder makes a folder of files; arguments are name, content, name, content, …
func folder(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600))
	}
	return dir
}

func texts(list []Problem) []string {
	out := []string{}
	for _, p := range list {
		out = append(out, p.String())
	}
	return out
}

// The files of the stock chart load unchanged: all its kinds, texts for numbers and lists, keys
// in other case, unknown keys.
func TestStockChartFilesLoad(t *testing.T) {
	dir := filepath.Join("testdata", "stock")
	c, warnings, err := LoadClient(Env{
		ConfigDir:      filepath.Join(dir, "config"),
		CredentialsDir: filepath.Join(dir, "credentials"),
	})
	require.NoError(t, err)
	in := c.InCluster
	require.Equal(t, "wss://synchronizer.example.com", in.ServerURL)
	require.Equal(t, "arn-aws-eks-eu-west-1-prod", in.ClusterName)
	require.Equal(t, "kubescape", in.Namespace)
	require.Equal(t, "9d0a2b7e-0000-4000-8000-000000000001", in.Account)
	require.Equal(t, "stock-access-key", in.AccessKey.Reveal())
	require.Empty(t, in.IncludeNamespaces)
	require.Equal(t, []string{"kubescape", "kube-system", "kube-public"}, in.ExcludeNamespaces)
	require.Len(t, in.Resources, 43)
	require.Equal(t, Resource{Version: "v1", Resource: "services", Strategy: StrategyPatch}, in.Resources[0])
	require.Equal(t, Resource{Group: "kubescape.io", Version: "v1", Resource: "rules", Strategy: StrategyCopy}, in.Resources[42])
	require.Equal(t, 7888, in.HealthPort)
	require.NotNil(t, c.HTTPEndpoint)
	require.Equal(t, 8089, c.HTTPEndpoint.ServerPort)
	require.Len(t, c.HTTPEndpoint.Resources, 5)
	require.Equal(t, []string{
		"inCluster.futureChartKey: unknown key, ignored (config.json:9)",
		"chartVersion: unknown key, ignored (config.json:66)",
		"inCluster.listPeriod: accepted for the sake of existing files, ignored (config.json:6)",
	}, texts(warnings))
}

func TestServerFileOfTheFieldLoads(t *testing.T) {
	c, warnings, err := LoadServer(Env{ConfigDir: filepath.Join("testdata", "field-server")}.With("MAX_OBJECT_SIZE", "1048576"))
	require.NoError(t, err)
	require.Equal(t, 8080, c.Backend.Port)
	require.Equal(t, ":8080", c.Backend.ListenAddress())
	require.Equal(t, 5, c.Backend.ConsumerWorkers)
	require.Equal(t, map[string]string{"X-API-ACCOUNT": "customerGUID"}, c.Backend.AuthenticationServer.HeaderToQueryParamMapping)
	require.Equal(t, []string{"a", "b"}, c.Backend.SkipAlertsFrom)
	require.Equal(t, Seconds(0), c.Backend.ReconciliationTask.ReconcileAfterConnectSeconds, "negative is off")
	require.Equal(t, Seconds(3600), c.Backend.ReconciliationTask.TaskIntervalSeconds)
	require.Equal(t, Replay{Enabled: true, TTLSeconds: 300, MaxMessages: 10000, MaxMessagesPerClient: 100, MaxBytes: 1000000}, c.Backend.Replay)
	require.Equal(t, int64(1048576), c.Process.MaxObjectSize)
	require.True(t, c.IngesterEnabled())
	require.Equal(t, QueueEmbedded, c.Backend.QueueType())
	require.Contains(t, texts(warnings), "backend.logger: unknown key, ignored (config.json:25)")
	require.Contains(t, texts(warnings), "resources: accepted for the sake of existing files, ignored (config.json:27)")
	require.NotContains(t, strings.Join(texts(warnings), "\n"), "backend.replay")
}

// The commands of the README read these files.
func TestSamplesLoad(t *testing.T) {
	samples := filepath.Join("..", "..", "configuration")
	server, warnings, err := LoadServer(Env{}.With("CONFIG", filepath.Join(samples, "server")))
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8080", server.Backend.ListenAddress())
	require.Equal(t, 7888, server.Backend.HealthPort)
	require.True(t, server.IngesterEnabled())
	require.Equal(t, filepath.Join("data", "synchronizer.db"), server.SQLitePath())
	require.Equal(t, filepath.Join("data", "queue"), server.QueuePath())
	for _, w := range warnings {
		require.NotContains(t, w.Message, "unknown")
	}
	for _, name := range []string{"client", "client-endpoint"} {
		client, warnings, err := LoadClient(Env{}.With("CONFIG", filepath.Join(samples, name)).
			With("SERVICES", filepath.Join(samples, "services.json")).
			With("CLUSTER_CONFIG", filepath.Join(samples, "clusterData.json")))
		require.NoError(t, err, name)
		require.Equal(t, "ws://127.0.0.1:8080", client.InCluster.ServerURL)
		require.Equal(t, "local", client.InCluster.ClusterName)
		require.Equal(t, 7889, client.InCluster.HealthPort)
		require.Len(t, client.InCluster.Resources, 20)
		require.Equal(t, name == "client-endpoint", client.HTTPEndpoint != nil)
		for _, w := range warnings {
			require.NotContains(t, w.Message, "unknown")
		}
	}
}

func TestUpNeedsNoFile(t *testing.T) {
	env := variables(folder(t, "config.json", `{"backend":{"port":1}}`), "SYNCHRONIZER_BACKEND_LISTEN", "127.0.0.1:0")
	c, warnings, err := LoadUp(env)
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Empty(t, c.Process.File)
	require.Equal(t, 8080, c.Backend.Port, "the folder of the system is not searched")

	_, _, err = LoadUp(env.With("CONFIG", t.TempDir()))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestConfigFolders(t *testing.T) {
	first, second := folder(t, "config.json", `{"backend":{"listen":"127.0.0.1:1"}}`), folder(t, "config.json", `{"backend":{"listen":"127.0.0.1:2"}}`)
	c, _, err := LoadServer(variables(second, "CONFIG", first))
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:1", c.Backend.Listen)

	c, _, err = LoadServer(variables(second, "CONFIG", t.TempDir()))
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:2", c.Backend.Listen)
	require.Equal(t, filepath.Join(second, "config.json"), c.Process.File)
}

func TestFilesThatCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"malformed":        {"{\n  \"backend\": {\n    port: 1\n  }\n}", "config.json: malformed JSON: invalid character 'p' looking for beginning of object key string (config.json:3)"},
		"trailing content": {"{}\n{}", "config.json: malformed JSON: invalid character '{' after top-level value (config.json:2)"},
		"trailing comma":   {"{\"a\": [1,]}", "config.json: malformed JSON: invalid character ']' looking for beginning of value (config.json:1)"},
		"cut off":          {"{\n\"backend\":", "config.json: malformed JSON: unexpected end of JSON input (config.json:2)"},
		"empty":            {" \n", "config.json: the file is empty: write at least {} (config.json:1)"},
		"list":             {"[]", "config.json: must be a JSON object, not a list (config.json:1)"},
		"null":             {"null", "config.json: must be a JSON object, not null (config.json:1)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, "config.json", test.content)
			_, _, err := LoadServer(variables(dir))
			var problems Problems
			require.ErrorAs(t, err, &problems)
			require.Len(t, problems, 1)
			require.Equal(t, test.want, strings.TrimPrefix(problems[0].String(), dir+string(filepath.Separator)))
		})
	}

	_, _, err := LoadServer(variables(t.TempDir(), "CONFIG", t.TempDir()))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "no configuration file: looked for ")

	_, _, err = LoadServer(Env{})
	require.ErrorContains(t, err, "CONFIG: missing")

	dir := folder(t, "config.json", "{}")
	_, _, err = LoadServer(variables("", "CONFIG", filepath.Join(dir, "config.json")))
	require.ErrorContains(t, err, "is a file: name the folder that holds config.json")

	dir = t.TempDir() // config.json is a folder: unreadable, for root as well
	require.NoError(t, os.Mkdir(filepath.Join(dir, "config.json"), 0o700))
	_, _, err = LoadServer(variables(dir))
	require.ErrorContains(t, err, "reading it: is a directory")

	_, _, err = LoadServer(variables(folder(t, "config.json", strings.Repeat(" ", maxFileBytes+1))))
	require.ErrorIs(t, err, errTooBig)
}

const minimalClient = `{"inCluster":{"serverUrl":"ws://h:1","clusterName":"fromFile","namespace":"n","account":"a","accessKey":"k",
"resources":[{"version":"v1","resource":"pods"}]}}`

func TestClusterNameOrder(t *testing.T) {
	dir := folder(t, "config.json", minimalClient)
	name := func(env Env) string {
		c, _, err := LoadClient(env)
		require.NoError(t, err)
		return c.InCluster.ClusterName
	}
	require.Equal(t, "fromFile", name(variables(dir)))
	data := filepath.Join(folder(t, "data.json", `{"ClusterName":"From/Data ","namespace":"ks","other":[1]}`), "data.json")
	require.Equal(t, "From/Data ", name(variables(dir, "CLUSTER_CONFIG", data)), "verbatim")
	require.Equal(t, "fromEnv", name(variables(dir, "CLUSTER_CONFIG", data, "CLUSTER_NAME", "fromEnv")))
	require.Equal(t, "fromEnv", name(variables(dir, "CLUSTER_NAME", "fromEnv")))

	_, _, err := LoadClient(variables(dir, "CLUSTER_CONFIG", filepath.Join(dir, "absent.json")))
	require.ErrorContains(t, err, "CLUSTER_CONFIG: reading ")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestServerURLOrder(t *testing.T) {
	url := func(env Env) string {
		c, _, err := LoadClient(env)
		require.NoError(t, err)
		return c.InCluster.ServerURL
	}
	plain := folder(t, "config.json", minimalClient)
	require.Equal(t, "ws://h:1", url(variables(plain)))
	withServices := folder(t, "config.json", minimalClient, "services.json", `{"version":"v2","response":{"synchronizer":"wss://s2"}}`)
	require.Equal(t, "wss://s2", url(variables(withServices)))
	require.Equal(t, "wss://s2", url(variables(withServices, "API_URL", "api.example.com")), "the file comes first")
	v3 := filepath.Join(folder(t, "s.json", `{"version":"v3","response":{"synchronizer":"s3.example.com"}}`), "s.json")
	require.Equal(t, "wss://s3.example.com", url(variables(withServices, "SERVICES", v3)))
	silent := filepath.Join(folder(t, "s.json", `{"version":"v3","response":{}}`), "s.json")
	require.Equal(t, "ws://h:1", url(variables(plain, "SERVICES", silent)))

	for name, test := range map[string]struct{ services, want string }{
		"version":  {`{"version":"v9","response":{"synchronizer":"wss://x"}}`, `version must be "v2" or "v3"`},
		"address":  {`{"version":"v2","response":{"synchronizer":"https://x"}}`, `response.synchronizer in `},
		"no JSON":  {`{`, "SERVICES: malformed JSON"},
		"trailing": {`{} x`, "SERVICES: malformed JSON"},
	} {
		file := filepath.Join(folder(t, "s.json", test.services), "s.json")
		_, _, err := LoadClient(variables(plain, "SERVICES", file))
		require.ErrorContains(t, err, test.want, name)
	}
	_, _, err := LoadClient(variables(plain, "SERVICES", filepath.Join(plain, "absent.json")))
	require.ErrorIs(t, err, fs.ErrNotExist)

	// Where there is no file, or it does not say, the API is asked: not now, but
	// when the client runs, whatever inCluster.serverUrl is.
	api := func(env Env) string {
		c, _, err := LoadClient(env)
		require.NoError(t, err)
		return c.Process.APIURL
	}
	require.Equal(t, "api.example.com", api(variables(plain, "API_URL", "api.example.com")))
	require.Equal(t, "https://a:1/x", api(variables(plain, "SERVICES", silent, "API_URL", "https://a:1/x")))
	require.Empty(t, api(variables(withServices, "API_URL", "api.example.com")))
	require.Empty(t, api(variables(plain)))
	c, _, err := LoadClient(variables(folder(t, "config.json", strings.Replace(minimalClient, `"serverUrl":"ws://h:1",`, "", 1)), "API_URL", "h"))
	require.NoError(t, err)
	require.Empty(t, c.InCluster.ServerURL)
	_, _, err = LoadClient(variables(plain, "API_URL", "ftp://user:hunter2@h"))
	require.ErrorContains(t, err, "API_URL: ")
	require.ErrorContains(t, err, "must begin with https:// or http://")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestCredentialFiles(t *testing.T) {
	env := variables(folder(t, "config.json", minimalClient))
	env.CredentialsDir = t.TempDir()
	c, _, err := LoadClient(env)
	require.NoError(t, err)
	require.Equal(t, "a", c.InCluster.Account)
	require.Equal(t, "k", c.InCluster.AccessKey.Reveal())

	env.CredentialsDir = folder(t, "account", "\t acc \n", "accessKey", "key\n\n")
	c, _, err = LoadClient(env)
	require.NoError(t, err)
	require.Equal(t, "acc", c.InCluster.Account)
	require.Equal(t, "key", c.InCluster.AccessKey.Reveal())

	env.CredentialsDir = folder(t, "account", "acc")
	_, _, err = LoadClient(env)
	require.ErrorContains(t, err, "inCluster.accessKey: missing: there are credentials in ")

	env.CredentialsDir = folder(t, "account", "acc")
	require.NoError(t, os.Mkdir(filepath.Join(env.CredentialsDir, "accessKey"), 0o700))
	_, _, err = LoadClient(env)
	require.ErrorContains(t, err, "inCluster.accessKey: reading ")
	var problems Problems
	require.ErrorAs(t, err, &problems)
	require.Len(t, problems, 1)
}

// The sample and the kinds that up watches by itself are one list.
func TestCommonResourcesAreTheSamples(t *testing.T) {
	env := Env{Lookup: func(key string) (string, bool) {
		return map[string]string{"CONFIG": "../../configuration/client"}[key], key == "CONFIG"
	}}
	c, _, err := LoadClient(env.With("CLUSTER_CONFIG", "../../configuration/clusterData.json"))
	require.NoError(t, err)
	require.Equal(t, c.InCluster.Resources, CommonResources())
}
