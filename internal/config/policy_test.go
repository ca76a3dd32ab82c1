// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/policy"
)

// canarySalt must stand in no message.
const canarySalt = "hunter2hunter2hunter2"

// clientWith is a client's file with an inCluster.policy, which begins on line 2.
func clientWith(rules string) string {
	return `{"inCluster": {"serverUrl":"ws://h","clusterName":"c","account":"a","accessKey":"k","resources": [{"version":"v1","resource":"configmaps"}], "policy":
` + rules + `}}`
}

func TestPolicyProblems(t *testing.T) {
	_, warnings, err := LoadClient(variables(folder(t, "config.json", clientWith(`[
 {},
 {"match": {"group": "Apps", "resource": "Pods", "namespaces": ["a?"]}, "action": "erase", "paths": "a..b,c"},
 {"match": {"resource": "configmaps"}, "action": "drop",
  "paths": ["data.x",
   "metadata.labels"], "salt": "`+canarySalt+`"},
 {"match": {"resource": "configmaps"}, "action": "hash", "paths": ["data.*"], "salt": "hunter2"},
 {"match": {"resource": "configmaps"}, "action": "hash", "paths": ["data.*"], "salt": "`+canarySalt+`", "saltFile": "x"},
 {"match": {"resource": "configmaps"}, "action": "hash", "paths": ["data.*"], "saltFile": "/no/such/file"},
 {"match": {"resource": "pods"}, "action": "drop", "paths": ["spec.x"], "salts": 1}]`))))
	var problems Problems
	require.ErrorAs(t, err, &problems)
	require.Equal(t, []string{
		`inCluster.policy[1].action: unknown value "erase": use drop, mask, hash, keep or reveal (config.json:4)`,
		`inCluster.policy[4].saltFile: the salt is there twice: leave out salt or saltFile (config.json:9)`,
		`inCluster.policy[5].saltFile: reading /no/such/file: no such file or directory (config.json:10)`,
		`inCluster.policy[0].match.resource: missing: a plural name such as "pods", or "*" (config.json:3)`,
		`inCluster.policy[0].action: missing: use one of drop, mask, hash, keep, reveal (config.json:3)`,
		`inCluster.policy[0].paths: missing: name at least one field (config.json:3)`,
		`inCluster.policy[1].match.group: "Apps" must be an API group in lower case, "*", or empty for the core group (config.json:4)`,
		`inCluster.policy[1].match.resource: "Pods" must be a plural name in lower case, such as "pods", or "*" (config.json:4)`,
		`inCluster.policy[1].match.namespaces[0]: "a?" must be the name of a namespace, in which * stands for any text (config.json:4)`,
		`inCluster.policy[1].paths[0]: has an empty name: a dot too many (config.json:4)`,
		`inCluster.policy[2].salt: only a rule that hashes has a salt (config.json:7)`,
		`inCluster.policy[2].paths[1]: metadata.labels must stay: objects are told apart by it (config.json:7)`,
		`inCluster.policy[3].salt: must be 16 bytes or more, random ones at best (config.json:8)`,
	}, texts(problems))
	require.Equal(t, []string{
		"inCluster.policy[6].salts: unknown key, ignored (did you mean salt?) (config.json:11)",
		"inCluster.policy[1].match: is about no kind in inCluster.resources (config.json:4)",
		"inCluster.policy[6].match: is about no kind in inCluster.resources (config.json:11)",
	}, texts(Problems(warnings)))
	require.NotContains(t, fmt.Sprint(err, warnings), "hunter2")
}

func TestPolicyHashesWithTheSalt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "salt")
	require.NoError(t, os.WriteFile(file, []byte(" "+canarySalt+"\n"), 0o600))
	const object, want = `{"data":{"a":"b"}}`, `{"data":{"a":"sha256:`
	var results []string
	for _, salt := range []string{`"salt": "` + canarySalt + `"`, `"saltFile": "` + file + `"`} {
		rules := `[{"match": {"resource": "configmaps"}, "action": "hash", "paths": ["data.*"], ` + salt + `}]`
		c, warnings, err := LoadClient(variables(folder(t, "config.json", clientWith(rules))))
		require.NoError(t, err)
		require.Empty(t, warnings)
		transform, err := c.Policy(policy.LinkV1)
		require.NoError(t, err)
		got, err := transform.Apply(nil, "", "configmaps", "n", []byte(object))
		require.NoError(t, err)
		require.Contains(t, string(got), want)
		results = append(results, string(got))
		for _, printed := range []any{c, c.Redacted(), *c} {
			text, err := json.Marshal(printed)
			require.NoError(t, err)
			require.NotContains(t, string(text)+fmt.Sprintf("%v %+v %#v", printed, printed, printed), "hunter2")
		}
	}
	require.Equal(t, results[0], results[1])
}

// A file can be tried on a machine that has no salt file; the client itself refuses.
func TestPolicyWithoutTheSaltFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(name, []byte(clientWith(
		`[{"match": {"resource": "configmaps"}, "action": "hash", "paths": ["data.*"], "saltFile": "/no/such/file"}]`)), 0o600))
	c, warnings, err := ReadFile(name, RoleClient)
	require.NoError(t, err)
	want := []string{"inCluster.policy[0].saltFile: reading /no/such/file: no such file or directory; hashes are made with another salt here"}
	require.Equal(t, want[0]+" (config.json:2)", warnings[0].String())
	_, err = c.Policy(policy.LinkV2)
	require.ErrorContains(t, err, "inCluster.policy[0].saltFile")
	transform, trial, err := c.TrialPolicy(policy.LinkV2)
	require.NoError(t, err)
	require.NotNil(t, transform)
	require.Equal(t, want, texts(Problems(trial)))
}
