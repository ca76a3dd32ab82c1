// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every bad configuration gives the whole list of its problems, not only the first.
func TestBadConfigurations(t *testing.T) {
	for _, test := range []struct {
		name    string
		role    Role
		content string
		want    []string
	}{
		{
			name: "client with nothing", role: RoleClient, content: `{}`,
			want: []string{
				"inCluster.serverUrl: missing: set it, or name a file with SERVICES, or the backend's API with API_URL",
				"inCluster.clusterName: missing: set it, CLUSTER_NAME, or clusterName in clusterData.json",
				"inCluster.account: missing: set it, or provide the file account in the credentials folder",
				"inCluster.accessKey: missing: set it, or provide the file accessKey in the credentials folder",
				"inCluster.resources: nothing to do: list kinds here, or add a section httpEndpoint",
			},
		},
		{
			name: "client with everything wrong", role: RoleClient,
			content: `{"inCluster": {
 "serverUrl": "https://user:hunter2@h/x",
 "clusterName": ["x"],
 "account": "a/b",
 "accessKey": "two\nlines",
 "healthPort": 70000,
 "coalesceWindow": "-1s",
 "maxObjectBytes": 0,
 "qps": -1,
 "includeNamespaces": {"a": 1},
 "includeChildWorkloads": "perhaps",
 "resources": [
  {"group": "apps", "version": "v1", "resource": "deployments", "strategy": "move"},
  {"group": "*", "version": "*", "resource": "*"},
  {"group": "apps", "resource": "Pods"},
  {"version": "v1"},
  "pods",
  {"group": "apps", "version": "v1", "resource": "deployments"}
 ]},
 "httpEndpoint": {"serverPort": "http", "resources": 3}}`,
			want: []string{
				"inCluster.clusterName: must be text, not a list (config.json:3)",
				`inCluster.coalesceWindow: "-1s" must not be negative (config.json:7)`,
				"inCluster.includeNamespaces: must be a list of text, not an object (config.json:10)",
				`inCluster.includeChildWorkloads: "perhaps" is not true or false (config.json:11)`,
				"inCluster.resources[4]: must be a section, not text (config.json:17)",
				`httpEndpoint.serverPort: "http" is not a number (config.json:20)`,
				"httpEndpoint.resources: must be a list of sections, not a number (config.json:20)",
				`inCluster.resources[0].strategy: unknown value "move": use copy or patch (config.json:13)`,
				"inCluster.maxObjectBytes: must be 1 or more (config.json:8)",
				"inCluster.qps: must not be negative (config.json:9)",
				"inCluster.healthPort: must be a port, 0 to 65535 (config.json:6)",
				`inCluster.serverUrl: "https://[redacted]@h/x" must begin with ws:// or wss:// (config.json:2)`,
				"inCluster.accessKey: must not contain line breaks or other control characters (config.json:5)",
				"inCluster.account: must not contain / (config.json:4)",
				"inCluster.resources[2].version: missing (config.json:15)",
				`inCluster.resources[2].resource: "Pods" must be a plural name in lower case, such as "pods" (config.json:15)`,
				"inCluster.resources[3].resource: missing (config.json:16)",
				"inCluster.resources[4].version: missing (config.json:17)",
				"inCluster.resources[4].resource: missing (config.json:17)",
				"inCluster.resources[5]: apps/v1/deployments is already in inCluster.resources[0] (config.json:18)",
			},
		},
		{
			name: "client keys that must not be ignored", role: RoleClient,
			content: `{"inCluster": {"serverUrl":"ws://h","clusterName":"c","account":"a","accessKey":"k",
 "namespaceFilterConfigMapName": "namespace-filters",
 "resources": [{"version":"v1","resource":"pods","labelSelector":"a in b","fieldSelector":"c","namespaces":"E"}]},
 "httpEndpoint": {"resources": [{"group":"*","version":"v1","resource":"pods","labelSelector":"a=b"}]}}`,
			want: []string{
				"httpEndpoint.resources[0].labelSelector: not supported by this version (config.json:4)",
				"inCluster.namespace: missing: it is where the ConfigMap of inCluster.namespaceFilterConfigMapName is",
				"inCluster.resources[0].labelSelector: \"a in b\" is not a label selector: unable to parse requirement: found 'b' expected: '(' (config.json:3)",
				"inCluster.resources[0].fieldSelector: \"c\" is not a field selector: invalid selector: 'c'; can't understand 'c' (config.json:3)",
				"inCluster.resources[0].namespaces: \"E\" cannot be a namespace (config.json:3)",
				"httpEndpoint.resources[0].group: the wildcard * is only for what is watched, in inCluster.resources (config.json:4)",
			},
		},
		{
			name: "server keys that must not be ignored", role: RoleServer,
			content: `{"backend": {"accessKeys": "stor",
 "messageQueue": {"type": "kafka"}},
 "store": {"postgres": {"url": "postgres://u:hunter2@h/d"}}, "api": {"tlsListen": ":8443", "tls": {"certPath": "c"}}}`,
			want: []string{
				`backend.accessKeys: unknown value "stor": use store (config.json:1)`,
				"api.tlsListen: not supported by this version (config.json:3)",
				"api.tls: not supported by this version (config.json:3)",
				"backend.messageQueue.kafkaConfig: missing: messageQueue.type is kafka",
			},
		},
		{
			name: "server with everything wrong", role: RoleServer,
			content: `{"backend": {"listen": "8080", "healthPort": -1, "messageQueue": {"type": "rabbit", "embedded": {"maxAge": 1e12}},
 "reconciliationTaskConfig": {"taskIntervalSeconds": 1e30}, "clientBacklogBytes": "1.5", "dataDir": ""},
 "ingester": {"batchMax": 0, "v1Kinds": "pods", "eventKinds": "a/b", "tombstoneTTL": "soon"}, "api": {"listen": "0.0.0.0:8090"}, "store": []}`,
			want: []string{
				`backend.messageQueue.embedded.maxAge: "1e12" is too large (config.json:1)`,
				`backend.clientBacklogBytes: "1.5" is not a whole number (config.json:2)`,
				`ingester.tombstoneTTL: "soon" is not a duration: write it like "1s", "5m" or as a number of seconds (config.json:3)`,
				"store: must be a section, not a list (config.json:3)",
				"backend.reconciliationTaskConfig.taskIntervalSeconds: is too large (config.json:2)",
				"backend.healthPort: must be a port, 0 to 65535 (config.json:1)",
				`backend.messageQueue.type: unknown value "rabbit": use embedded, pulsar, kafka or nats (config.json:1)`,
				"ingester.batchMax: must be 1 or more (config.json:3)",
				`ingester.v1Kinds: "pods" is not group/version/resource (config.json:3)`,
				`ingester.eventKinds: "a/b" is not group/version/resource (config.json:3)`,
				"backend.dataDir: must not be empty (config.json:2)",
				`backend.listen: "8080" is not host:port (config.json:1)`,
				`api.listen: "0.0.0.0:8090" is not a loopback address: plain HTTP would carry tokens in the clear. Put a proxy with TLS in front of 127.0.0.1:8090 (config.json:3)`,
			},
		},
		{
			name: "ports that collide", role: RoleServer,
			content: `{"backend": {"listen": "127.0.0.1:7888"}, "api": {"listen": "127.0.0.1:7888"}}`,
			want: []string{
				"backend.healthPort: is the same port as the port for clients, 7888",
				"backend.healthPort: is the same port as api.listen, 7888",
				"api.listen: is the same address as backend.listen (config.json:1)",
			},
		},
		{
			name: "ingester alone", role: RoleIngester, content: `{}`,
			want: []string{
				"backend.messageQueue: the embedded queue can be read only inside the server: run server or up, or choose a broker",
				"store.postgres.url: missing: SQLite can be used only inside the server",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := load(variables(folder(t, "config.json", test.content)), test.role)
			var problems Problems
			require.ErrorAs(t, err, &problems)
			require.Equal(t, test.want, texts(problems))
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

// TestDatabaseURL: a form that cannot be one is found with the other problems, and
// nothing of it is repeated.
func TestDatabaseURL(t *testing.T) {
	for url, right := range map[string]bool{
		"postgres://u:hunter2@h:5432/x?sslmode=disable": true, "postgresql:///x?host=/run": true, "postgres://u@h1:1,h2:2/x": true,
		"host=h user=u password=hunter2": true, "": true,
		"postgres://u:hunter2@h:port/x": false, "postgres://u:hunt er2@h/x": false, "postgres://u:hunter2%zz@h/x": false, "db.example:5432": false,
		"postgres://u:hun#ter2@h:5432/x": false,
	} {
		c := Default()
		c.Backend.Listen, c.Store.Postgres.URL = "127.0.0.1:0", Secret(url)
		for _, role := range []Role{RoleServer, RoleUp} {
			err := c.Validate(role)
			if right {
				require.NoError(t, err, url)
				continue
			}
			require.ErrorContains(t, err, "store.postgres.url: is no address of PostgreSQL", url)
			require.NotContains(t, err.Error(), "hunt", url)
		}
	}
}

// TestPortOfMetrics may be that of health, and no other of the process.
func TestPortOfMetrics(t *testing.T) {
	for port, want := range map[int]string{
		0: "", 7888: "", 9090: "", 8080: "backend.prometheusConfig.port: is the same port as the port for clients, 8080",
		8090: "backend.prometheusConfig.port: is the same port as api.listen, 8090",
	} {
		c := Default()
		c.Backend.AllowAnonymous, c.Backend.PrometheusConfig = true, PrometheusConfig{Enabled: true, Port: port}
		err := c.Validate(RoleServer)
		if want == "" {
			require.NoError(t, err, port)
		} else {
			require.ErrorContains(t, err, want)
		}
		c.Backend.PrometheusConfig.Enabled = false
		require.NoError(t, c.Validate(RoleServer), "nothing listens there")
	}
}

func TestOpenListenerNeedsConsent(t *testing.T) {
	dir := folder(t, "config.json", `{}`)
	_, _, err := LoadServer(variables(dir))
	require.ErrorContains(t, err, "backend.allowAnonymous: the server listens on :8080 and would let every client in")
	require.ErrorContains(t, err, filepath.Join(dir, "config.json"))
	for _, content := range []string{
		`{"backend":{"allowAnonymous":"true"}}`,
		`{"backend":{"listen":"127.0.0.1:8080"}}`,
		`{"backend":{"listen":"[::1]:8080"}}`,
		`{"backend":{"listen":"localhost:8080"}}`,
	} {
		_, _, err := LoadServer(variables(folder(t, "config.json", content)))
		require.NoError(t, err, content)
	}
}

func TestWarnings(t *testing.T) {
	_, warnings, err := LoadServer(variables(folder(t, "config.json", `{
 "backend": {"listen": "127.0.0.1:0", "helthPort": 1, "Port": 1, "port": 2,
  "reconciliationTaskConfig": {"reconcileAfterConnectSeconds": 9000000000, "sendBatch": false},
  "replay": {"enabled": false, "ttlSeconds": 300},
  "messageQueue": {"kafkaConfig": {"groupIdPrefix": "synchronizer-server"}, "encoding": "compact"}},
 "ingester": {"enabled": false}, "somethingElse": 1, "resources": []}`)))
	require.NoError(t, err)
	require.Equal(t, []string{
		"backend.helthPort: unknown key, ignored (did you mean healthPort?) (config.json:2)",
		"backend.port: the key is there twice; the last one counts (config.json:2)",
		"somethingElse: unknown key, ignored (config.json:6)",
		"backend.reconciliationTaskConfig.reconcileAfterConnectSeconds: too large for the delay plus jitter: ignored (config.json:3)",
		"backend.messageQueue.kafkaConfig.groupIdPrefix: accepted for the sake of existing files, ignored (config.json:5)",
		"ingester.enabled: nothing will read the embedded queue: no other process can (config.json:6)",
	}, texts(warnings))
}

func TestValidateFileMissesNothingThatOthersGive(t *testing.T) {
	file := filepath.Join(folder(t, "c.json", `{"inCluster":{"resources":[{"version":"v1","resource":"pods"}]}}`), "c.json")
	warnings, err := ValidateFile(file, RoleClient)
	require.NoError(t, err)
	require.Len(t, warnings, 4)
	require.True(t, strings.HasPrefix(warnings.String(), "inCluster.serverUrl: not in this file: "))

	_, err = ValidateFile(filepath.Join(t.TempDir(), "absent.json"), RoleClient)
	require.ErrorIs(t, err, os.ErrNotExist)
	role, err := RoleOfFile(file)
	require.NoError(t, err)
	require.Equal(t, RoleClient, role)
	role, err = RoleOfFile(filepath.Join("testdata", "field-server", "config.json"))
	require.NoError(t, err)
	require.Equal(t, RoleServer, role)
}

func TestParseRole(t *testing.T) {
	for _, role := range []Role{RoleClient, RoleServer, RoleIngester, RoleUp} {
		parsed, err := ParseRole(strings.ToUpper(role.String()))
		require.NoError(t, err)
		require.Equal(t, role, parsed)
	}
	_, err := ParseRole("both")
	require.EqualError(t, err, `unknown role "both": use client, server, ingester or up`)
}
