// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestUsage: what is wrong with a command line or a configuration ends with 2,
// what is wrong with the world with 1, and each says what to do.
func TestUsage(t *testing.T) {
	p := newProgram(t)
	p.write("bad/config.json", `{"inCluster":{"serverUrl":"ftp://x","account":"a/b","resources":[{"version":"v1"}]},"backend":{"nonsense":1}}`)
	p.write("broken/config.json", "{\n  \"inCluster\": {,}\n}")
	p.write("server/config.json", `{"backend":{"port":8080}}`)
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr []string
	}{
		{"--help", 0, []string{"Run:", "Read the fleet:", "Tools:", "synchronizer up"}, nil},
		{"", 0, []string{"Run:"}, nil},
		{"--version", 0, []string{"v0."}, nil},
		{"up --help", 0, []string{"--data-dir", "--kubeconfig"}, nil},
		{"completion bash", 0, []string{"synchronizer"}, nil},
		{"nonsense", 2, nil, []string{`unknown command "nonsense"`, "--help"}},
		{"up --nonsense", 2, nil, []string{"--nonsense", "synchronizer up --help"}},
		{"up extra", 2, nil, []string{"extra"}},
		{"up --kubeconfig x", 2, nil, []string{"cluster"}},
		{"up --health-port many", 2, nil, []string{"health-port"}},
		{"config", 0, []string{"validate"}, nil},
		{"config nonsense", 2, nil, []string{"nonsense"}},
		{"config validate", 2, nil, []string{"1 arg"}},
		{"config validate bad --role client", 2, nil, []string{"inCluster.serverUrl", "inCluster.account", "inCluster.resources"}},
		{"config validate broken", 2, nil, []string{"config.json", "2"}},
		{"config validate absent", 2, nil, []string{"absent"}},
		{"config validate server --role nonsense", 2, nil, []string{"nonsense"}},
		{"config validate server --role server", 2, nil, []string{"allowAnonymous"}},
		{"config defaults --role nonsense", 2, nil, []string{"nonsense"}},
		{"agent", 2, nil, []string{"config.json"}},
		{"agent --config absent", 2, nil, []string{"absent"}},
		{"ingester --config server", 2, nil, []string{"embedded"}},
		{"server --config server", 2, nil, []string{"backend.allowAnonymous"}},
		{"get", 2, nil, []string{"arg"}},
		{"get pods -o yaml", 2, nil, []string{`"yaml" is none of table, wide, name, json`}},
		{"clusters -o xml", 2, nil, []string{"neither table nor json"}},
		{"diff", 2, nil, []string{"arg"}},
		{"diff dev -o xml", 2, nil, []string{"neither text nor json"}},
		{"get pods", 1, nil, []string{"./data/api-token", "--token-file", "`synchronizer up` writes"}},
		{"clusters", 1, nil, []string{"--token-file"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			code, stdout, stderr := p.run(strings.Fields(test.args)...)
			require.Equal(t, test.code, code, stdout+stderr)
			for _, text := range test.stdout {
				require.Contains(t, stdout, text)
			}
			for _, text := range test.stderr {
				require.Contains(t, stderr, text)
			}
			if test.code == 0 {
				require.Empty(t, stderr)
			}
			require.NotContains(t, stderr, "panic")
			require.NotContains(t, stderr, "Usage:", "an error is one line and not the whole help")
		})
	}
	require.NoDirExists(t, p.dir+"/data")

	withToken := newProgram(t, "SYNCHRONIZER_TOKEN=some-secret", "SYNCHRONIZER_SERVER=127.0.0.1:1")
	for _, args := range []string{"get pods", "clusters"} {
		code, _, stderr := withToken.run(strings.Fields(args)...)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "is it running? `synchronizer up` starts one; --server names another")
		require.NotContains(t, stderr, "some-secret")
	}
	code, _, stderr := withToken.run("get", "pods", "--server", "http://")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "is not an address like")
}

func TestDefaultsAndSchema(t *testing.T) {
	p := newProgram(t)
	for _, args := range []string{"config defaults", "config defaults --role server", "config defaults --role up", "config schema"} {
		code, stdout, stderr := p.run(strings.Fields(args)...)
		require.Equal(t, 0, code, stderr)
		require.True(t, json.Valid([]byte(stdout)), args)
	}
}

func TestAge(t *testing.T) {
	for _, test := range []struct {
		ago  time.Duration
		want string
	}{
		{-time.Hour, "0s"},
		{time.Second, "1s"},
		{119 * time.Second, "119s"},
		{2 * time.Minute, "2m"},
		{2*time.Hour - time.Second, "119m"},
		{3 * time.Hour, "3h"},
		{72 * time.Hour, "3d"},
	} {
		require.Equal(t, test.want, age(time.Now().Add(-test.ago)))
	}
	require.Equal(t, "-", age(time.Time{}))
}
