// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/api"
	"synchronizer/internal/app/client"
	"synchronizer/internal/kube/recorded"
	"synchronizer/internal/link/stock"
)

const objects = 5

// deployments is an API server that serves a few of them and nothing else.
func deployments(t *testing.T) *recorded.Server {
	t.Helper()
	s, err := recorded.NewServer(recorded.GenerateSet(recorded.Deployments, 1, objects))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// eventually runs a command until it succeeds and prints what is wanted.
func (p *program) eventually(want func(stdout string) bool, args ...string) (stdout string) {
	p.t.Helper()
	var code int
	var stderr string
	require.Eventually(p.t, func() bool {
		code, stdout, stderr = p.run(args...)
		return code == 0 && want(stdout)
	}, limit, 50*time.Millisecond, "%v", args)
	require.NotContains(p.t, stderr, "Error")
	return stdout
}

// TestUp is the first minute of a user: everything in one process, read by the
// other commands, and ended.
func TestUp(t *testing.T) {
	p := newProgram(t)
	kubeconfig := p.kubeconfig(deployments(t).URL)
	arguments := []string{"up", "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0", "--health-port", "0", "--kubeconfig", kubeconfig, "--cluster", "dev"}
	up := p.start(arguments)
	at := p.addresses()
	server := "--server=" + at.API
	token, err := os.ReadFile(filepath.Join(p.dir, "data", "api-token"))
	require.NoError(t, err)
	require.Contains(t, up.out.String(), "http://"+at.API)
	require.Contains(t, up.out.String(), "--token-file data/api-token")

	names := p.eventually(func(out string) bool { return strings.Count(out, "\n") == objects }, "get", "deploy", "-A", "-o", "name", server)
	name := strings.TrimPrefix(strings.SplitN(names, "\n", 2)[0], "deployments.apps/")
	require.NotContains(t, up.out.String(), strings.TrimSpace(string(token)), "secrets go to a terminal only")

	t.Run("get", func(t *testing.T) {
		code, stdout, _ := p.run("get", "deployments.apps", "-A", server)
		require.Equal(t, 0, code)
		require.Regexp(t, `^CLUSTER +NAMESPACE +RESOURCE +NAME +CHANGED\ndev +team-00 +deployments\.apps +`, stdout)
		_, stdout, _ = p.run("get", "all", "-A", "-o", "wide", server)
		require.Regexp(t, `ACCOUNT +UID +RESOURCE VERSION +CHECKSUM\n.* local +[0-9a-f-]{36} +\d+ +[0-9a-f]{12}\n`, stdout)
		_, stdout, _ = p.run("get", "deploy", name, "-A", "-o", "json", server)
		var list api.ObjectList
		require.NoError(t, json.Unmarshal([]byte(stdout), &list))
		require.Len(t, list.Items, 1)
		require.Contains(t, string(list.Items[0].Object), `"`+name+`"`)

		code, _, stderr := p.run("get", "deploy", "absent", name, "-A", server)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "deploy absent: not found")
		code, stdout, stderr = p.run("get", "pods", server)
		require.Equal(t, 0, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "No pods found in namespace default (-A shows all namespaces)")
		_, stdout, _ = p.run("get", "pods", "-A", "-o", "json", server)
		require.JSONEq(t, `{"items":[]}`, stdout)
		code, _, stderr = p.run("get", "pods", "-l", "a in (", server)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "labelSelector")
	})
	t.Run("clusters", func(t *testing.T) {
		code, stdout, _ := p.run("clusters", server)
		require.Equal(t, 0, code)
		require.Regexp(t, `(?m)^local +dev +\S+ +v\S+ +1 +5 +\d+s$`, stdout)
		_, stdout, _ = p.run("clusters", "-o", "json", server)
		var list api.ClusterList
		require.NoError(t, json.Unmarshal([]byte(stdout), &list))
		require.Len(t, list.Items, 1)
	})
	t.Run("status", func(t *testing.T) {
		_, port, err := net.SplitHostPort(at.Health)
		require.NoError(t, err)
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/status", nil))
		require.NoError(t, err)
		defer response.Body.Close()
		var status client.Status
		require.NoError(t, json.NewDecoder(response.Body).Decode(&status))
		require.Equal(t, "dev", status.Cluster)
		require.True(t, status.Connected)
		require.True(t, status.NamespaceRules.InForce)
		require.NotEmpty(t, status.Kinds)
	})
	t.Run("diff", func(t *testing.T) {
		code, stdout, stderr := p.run("diff", "dev", "--kubeconfig", kubeconfig, "--wait", "20s", server)
		require.Equal(t, 0, code, stderr)
		require.Contains(t, stdout, "dev: 5 objects agree, 0 do not")
		code, stdout, stderr = p.run("diff", "other", "--kubeconfig", kubeconfig, "-o", "json", server)
		require.Equal(t, 1, code)
		require.Contains(t, stdout, `"missing": [`)
		require.Contains(t, stderr, "differ")
	})
	t.Run("wrong token", func(t *testing.T) {
		file := p.write("token", "wrong")
		code, _, stderr := p.run("clusters", server, "--token-file", file)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "token of "+file)
	})
	t.Run("agent with a wrong key", func(t *testing.T) {
		p.write("agent/config.json", `{"inCluster":{"serverUrl":"ws://`+at.Clients+`","account":"local","accessKey":"guessed","clusterName":"x","healthPort":0,
			"resources":[{"group":"apps","version":"v1","resource":"deployments"}]}}`)
		code, _, stderr := p.run("agent", "--config", "agent", "--kubeconfig", kubeconfig)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "check account and access key")
		require.Contains(t, stderr, "the access key is unknown or was revoked")
		require.NotContains(t, stderr, "guessed")
	})
	t.Run("busy port", func(t *testing.T) {
		other := newProgram(t)
		code, _, stderr := other.run("up", "--listen", at.Clients, "--api-listen", "127.0.0.1:0", "--health-port", "0")
		require.Equal(t, 1, code)
		require.Contains(t, stderr, at.Clients+" (backend.listen)")
		require.NoDirExists(t, filepath.Join(other.dir, "data"))
	})
	t.Run("same folder", func(t *testing.T) {
		code, _, stderr := p.run(arguments...)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "stop the other process or use another data directory")
	})
	t.Run("end", func(t *testing.T) {
		begin := time.Now()
		require.Equal(t, 0, up.terminate(), up.out.String())
		require.Less(t, time.Since(begin), 10*time.Second)
		require.NoFileExists(t, filepath.Join(p.dir, "data", addressesFile))
		require.NotContains(t, up.out.String(), "level=ERROR")
	})
}

// TestSamples runs the programs of the field's image with the configuration of
// this repository, in the way that its users are told.
func TestSamples(t *testing.T) {
	p := newProgram(t)
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "synchronizer/cmd/server", "synchronizer/cmd/client")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.CopyFS(filepath.Join(p.dir, "configuration"), os.DirFS("../../configuration")))

	backend := (&program{t: t, path: filepath.Join(bin, "server"), dir: p.dir}).start(nil, "CONFIG=./configuration/server-embedded",
		"SYNCHRONIZER_BACKEND_LISTEN=127.0.0.1:0", "SYNCHRONIZER_BACKEND_HEALTHPORT=0", "SYNCHRONIZER_API_LISTEN=127.0.0.1:0")
	clients := backend.says(`msg=serving clients=(\S+)`)
	people := backend.says(`msg=serving .*api=(\S+)`)

	services := filepath.Join(p.dir, "configuration", "services.json")
	text, err := os.ReadFile(services)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(services, []byte(strings.ReplaceAll(string(text), "127.0.0.1:8080", clients)), 0o600))
	agent := (&program{t: t, path: filepath.Join(bin, "client"), dir: p.dir}).start(nil, "SERVICES=./configuration/services.json",
		"CLUSTER_CONFIG=./configuration/clusterData.json", "CONFIG=./configuration/client", "KUBECONFIG="+p.kubeconfig(deployments(t).URL),
		"SYNCHRONIZER_INCLUSTER_HEALTHPORT=0")

	got := p.eventually(func(out string) bool { return strings.Count(out, "\n") == objects+1 }, "get", "deployments", "-A", "--server", people)
	require.Regexp(t, regexp.MustCompile(`(?m)^local +team-00 +deployments\.apps`), got)
	require.Equal(t, 0, agent.terminate(), agent.out.String())
	require.Equal(t, 0, backend.terminate(), backend.out.String())
	for _, r := range []*process{agent, backend} {
		require.NotContains(t, r.out.String(), "level=ERROR")
		require.NotContains(t, r.out.String(), "DATA RACE")
	}
}

// TestAgentWithoutAPIServer: the API server is away at the start, which is no
// reason to end or to be restarted.
func TestAgentWithoutAPIServer(t *testing.T) {
	p := newProgram(t)
	server := stock.NewServer(t)
	p.write("agent/config.json", `{"inCluster":{"serverUrl":"`+strings.Replace(server.URL, "http", "ws", 1)+`","account":"a","accessKey":"k","clusterName":"x",
		"healthPort":0,"resources":[{"group":"apps","version":"v1","resource":"deployments"}]}}`)
	agent := p.start([]string{"agent", "--config", "agent", "--kubeconfig", p.kubeconfig("http://127.0.0.1:1")})
	health := agent.says(`msg=health address=\S*:(\d+)`)
	server.Next()
	agent.says(`(?i)(connection refused)`)
	transport := &http.Transport{DisableKeepAlives: true}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+health+"/healthz", nil)
	require.NoError(t, err)
	response, err := transport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 200, response.StatusCode)
	require.Equal(t, 0, agent.terminate(), agent.out.String())
}

// TestAgentWithoutKubeconfig: a file that is named and cannot be read is an error
// at once.
func TestAgentWithoutKubeconfig(t *testing.T) {
	p := newProgram(t)
	p.write("agent/config.json", `{"inCluster":{"serverUrl":"ws://127.0.0.1:1","account":"a","accessKey":"k","clusterName":"x",
		"healthPort":0,"resources":[{"group":"apps","version":"v1","resource":"deployments"}]}}`)
	code, _, stderr := p.run("agent", "--config", "agent", "--kubeconfig", "absent")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "reading kubeconfig absent (from --kubeconfig)")
}
