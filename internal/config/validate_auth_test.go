// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// findings are the problems and warnings of a server's backend section.
func findings(t *testing.T, backend string) (problems, warnings []string) {
	t.Helper()
	_, found, err := LoadServer(variables(folder(t, "config.json", `{"backend":{`+backend+`}}`)))
	for _, w := range found {
		warnings = append(warnings, w.Path+": "+w.Message)
	}
	if err == nil {
		return nil, warnings
	}
	var list Problems
	require.ErrorAs(t, err, &list)
	for _, p := range list {
		problems = append(problems, p.Path+": "+p.Message)
	}
	require.NotContains(t, err.Error(), "hunter2")
	return problems, warnings
}

func TestAuthentication(t *testing.T) {
	const right = `"url":"https://user:hunter2@auth.example.com/check?a=b","headerToHeaderMapping":{"X-API-KEY":"X-Key"}`
	for _, test := range []struct {
		name, backend      string
		problems, warnings []string
	}{
		{"a server that is right", `"authenticationServer":{` + right + `}`, nil, nil},
		{"key in the query", `"authenticationServer":{"url":"http://h","headerToQueryParamMapping":{"x-api-key":"k"}}`, nil, nil},
		{"wrong in every way", `"accessKeys":"store","authenticationServer":{"url":"ftp://user:hunter2@h","headerToQueryParamMapping":{"X API":"q","X-Empty":""},"headerToHeaderMapping":{"X-A":"host","X-B":"a b"}}`, []string{
			`backend.authenticationServer.url: "ftp://[redacted]@h" must begin with https:// or http://`,
			"backend.accessKeys: the authentication server decides already: remove this or backend.authenticationServer.url",
			`backend.authenticationServer.headerToQueryParamMapping: "X API" is not the name of a header`,
			"backend.authenticationServer.headerToQueryParamMapping: X-Empty: to what is missing",
			`backend.authenticationServer.headerToHeaderMapping: "host" cannot be set as a header`,
			`backend.authenticationServer.headerToHeaderMapping: "a b" cannot be set as a header`,
		}, []string{"backend.authenticationServer: no mapping passes X-API-KEY on: the authentication server cannot check it"}},
		{"no host", `"authenticationServer":{"url":"auth","headerToHeaderMapping":{"X-API-KEY":"X-Key"}}`, []string{
			"backend.authenticationServer.url: is not an address: write it like https://auth.example.com/check",
		}, nil},
		{"mapping without a server", `"allowAnonymous":true,"authenticationServer":{"headerToHeaderMapping":{"X-API-KEY":"X-Key"}}`, nil, []string{
			"backend.authenticationServer.headerToHeaderMapping: has no effect without backend.authenticationServer.url",
		}},
		{"nobody decides on loopback", `"listen":"127.0.0.1:8080"`, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			problems, warnings := findings(t, test.backend)
			require.Equal(t, test.problems, problems)
			require.Equal(t, test.warnings, warnings)
		})
	}
	problems, _ := findings(t, `"listen":"0.0.0.0:8080"`)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "backend.allowAnonymous: the server listens on 0.0.0.0:8080 and would let every client in: set in /")
	require.Contains(t, problems[0], `config.json backend.accessKeys to "store", or backend.authenticationServer.url, or backend.allowAnonymous`)
}

func TestListener(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, test := range []struct{ backend, problem string }{
		{`"tls":{"certPath":"` + file + `","keyPath":"` + file + `"},"publicUrl":"wss://h/x?y"`, ""},
		{`"tls":{"certPath":"` + file + `"}`, "backend.tls: certPath and keyPath belong together"},
		{`"tls":{"certPath":"` + file + `","keyPath":"/absent/key"}`, "backend.tls.keyPath: cannot be read: open /absent/key: no such file or directory"},
		{`"publicUrl":"https://h"`, `backend.publicUrl: "https://h" must begin with ws:// or wss://`},
		{`"publicUrl":"wss://user:hunter2@h"`, `backend.publicUrl: "wss://[redacted]@h" must not contain a user, a password or a fragment: everybody is told`},
	} {
		problems, warnings := findings(t, `"listen":"127.0.0.1:8080",`+test.backend)
		require.Empty(t, warnings)
		if test.problem == "" {
			require.Empty(t, problems)
			continue
		}
		require.Equal(t, []string{test.problem}, problems)
	}
}

func TestCAFile(t *testing.T) {
	dir := folder(t, "config.json", `{"inCluster":{"serverUrl":"wss://h","account":"a","accessKey":"k","clusterName":"c","caFile":"/absent/ca","resources":[{"version":"v1","resource":"pods"}]}}`)
	_, _, err := LoadClient(variables(dir))
	require.ErrorContains(t, err, "inCluster.caFile: cannot be read: open /absent/ca")
}
