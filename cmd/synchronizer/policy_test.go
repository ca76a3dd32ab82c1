// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
)

// runPolicyTest runs the command in the current folder as main does.
func runPolicyTest(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	root := newRoot()
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append([]string{"policy", "test"}, args...))
	err := root.ExecuteContext(t.Context())
	if err != nil {
		errs.WriteString("Error: " + err.Error() + "\n")
	}
	return out.String(), errs.String(), app.ExitCode(err)
}

var fence = regexp.MustCompile("(?ms)^```\\w+ ?([\\w.]*)\n(.*?)^```$")

// Every example of the page is run: its files are written, and what its commands print
// is compared with what stands below them.
func TestExamplesOfThePolicyPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "policy.md"))
	require.NoError(t, err)
	examples := strings.Split(string(page), "\n### Example: ")[1:]
	require.GreaterOrEqual(t, len(examples), 5)
	for _, example := range examples {
		title, text, _ := strings.Cut(example, "\n")
		t.Run(title, func(t *testing.T) {
			t.Chdir(t.TempDir())
			commands := 0
			for _, block := range fence.FindAllStringSubmatch(text, -1) {
				if name := block[1]; name != "" {
					require.NoError(t, os.WriteFile(name, []byte(block[2]), 0o600))
					continue
				}
				for _, session := range strings.Split(block[2], "$ synchronizer policy test ")[1:] {
					command, want, _ := strings.Cut(session, "\n")
					stdout, stderr, code := runPolicyTest(t, "", strings.Fields(command)...)
					commands++
					if strings.HasPrefix(want, "Error: ") {
						require.Equal(t, want, stderr)
						require.Equal(t, app.ExitUsage, code)
						continue
					}
					require.Equal(t, want, stdout)
					require.Zero(t, code, stderr)
				}
			}
			require.NotZero(t, commands)
		})
	}
}

func TestPolicyTestNotes(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("config.json", []byte(`{"inCluster": {"namespace": "kubescape", "excludeNamespaces": "a", "namespaceFilterConfigMapName": "",
 "resources": [{"version": "v1", "resource": "pods"}, {"group": "apps", "version": "v1", "resource": "replicasets"}, {"group": "example.com", "version": "v1", "resource": "gateways"}],
 "policy": [{"match": {"resource": "pods", "namespaces": ["b"]}, "action": "mask", "paths": ["spec.x"]},
  {"match": {"resource": "pods"}, "action": "hash", "paths": ["spec.y"], "saltFile": "/no/such/file"},
  {"match": {"resource": "nodes"}, "action": "drop", "paths": ["spec.x"]}]}}`), 0o600))
	const child = `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"r","namespace":"b","ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment"}]}}`
	list := `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"x": 1.0 , "z":"\u003c"}},` + child + `]}
{"apiVersion":"example.com/v1beta1","kind":"Gateway","metadata":{"name":"g"}}`
	stdout, stderr, code := runPolicyTest(t, list, "-f", "-", "--config", "config.json", "-n", "b", "--link", "v2")
	require.Equal(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"x": "XXXXXX" , "z":"\u003c"}}`+"\n", stdout)
	require.Equal(t, `Warning: inCluster.policy[1].saltFile: reading /no/such/file: no such file or directory; hashes are made with another salt here (config.json:4)
Warning: inCluster.policy[2].match: is about no kind in inCluster.resources (config.json:5)
# /v1/pods b/p
#   inCluster.policy[0] mask spec.x (1 found)
#   inCluster.policy[1] hash spec.y (0 found)
# apps/v1/replicasets b/r
#   does not leave the cluster: it is made by another workload (inCluster.includeChildWorkloads)
# example.com/v1beta1/gateways b/g
#   does not leave the cluster: inCluster.resources has version v1 of its kind
`, stderr)
	require.Zero(t, code)

	stdout, _, code = runPolicyTest(t, "apiVersion: v1\nkind: Pod\n", "-f", "-", "-o", "diff")
	require.Equal(t, "/v1/pods \n  unchanged\n", stdout)
	require.Zero(t, code)
}

func TestPolicyTestFaults(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		stdin, want string
		args        []string
	}{
		{"", "usage: name a file with -f, or - for standard input", nil},
		{"", `usage: -o "table" is not json, yaml or diff`, []string{"-f", "-", "-o", "table"}},
		{"", `usage: --link "v3" is neither v1 nor v2`, []string{"-f", "-", "--link", "v3"}},
		{"", "usage: absent.yaml: open absent.yaml: no such file or directory", []string{"-f", "absent.yaml"}},
		{"", "configuration: absent/config.json: reading it: no such file or directory", []string{"-f", "-", "--config", "absent/config.json"}},
		{"", "usage: -: holds no object", []string{"-f", "-"}},
		{"# nothing\n---\n", "usage: -: holds no object", []string{"-f", "-"}},
		{"a: b", "usage: -: document 1: has no apiVersion or no kind: write it as kubectl get -o yaml does", []string{"-f", "-"}},
		{"{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}\n{\n}", "usage: -: document 2: has no", []string{"-f", "-"}},
		{"{\"apiVersion\":\"v1\",\n\"kind\":}", "usage: -: document 1: line 2: malformed JSON", []string{"-f", "-"}},
		{"kind: List\napiVersion: v1\nitems: [{kind: Pod}]", "usage: -: document 1: in its items: has no apiVersion", []string{"-f", "-"}},
		{"a: b\na: c\n", "usage: -: document 1: malformed YAML", []string{"-f", "-"}},
	} {
		stdout, stderr, code := runPolicyTest(t, c.stdin, c.args...)
		require.Contains(t, stderr, c.want)
		require.Empty(t, stdout)
		require.Equal(t, app.ExitUsage, code)
	}
}
