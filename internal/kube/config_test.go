// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: dev
contexts:
- {name: dev, context: {cluster: dev, user: dev}}
- {name: prod, context: {cluster: prod, user: dev}}
- {name: bad, context: {cluster: none, user: dev}}
clusters:
- {name: dev, cluster: {server: "https://127.0.0.1:6443"}}
- {name: prod, cluster: {server: "https://user:pass@prod.example.com/k8s"}}
users:
- {name: dev, user: {token: SECRET}}
`

func TestLoadConfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	home := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(home, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good := write("good", kubeconfig)
	malformed := write("malformed", "token: SECRET\n\t{")
	mistyped := write("mistyped", "apiVersion: v1\nkind: Config\nusers: SECRET\n")
	empty := write("empty", "")
	missing := filepath.Join(home, "missing")
	list := string(filepath.ListSeparator)

	for name, test := range map[string]struct {
		options           LoadOptions
		host, description string
		errs              []string
	}{
		"flag":             {options: LoadOptions{Flag: good, Env: missing}, host: "https://127.0.0.1:6443", description: "context dev at https://127.0.0.1:6443 from " + good},
		"environment":      {options: LoadOptions{Env: good, Context: "prod"}, host: "https://user:pass@prod.example.com/k8s", description: "context prod at https://user:xxxxx@prod.example.com/k8s from " + good},
		"list":             {options: LoadOptions{Env: missing + list + good + list}, host: "https://127.0.0.1:6443", description: "context dev at https://127.0.0.1:6443 from " + good},
		"missing flag":     {options: LoadOptions{Flag: missing, AllowHome: true, Home: home}, errs: []string{missing, "--kubeconfig", "no such file", "correct the path"}},
		"missing env":      {options: LoadOptions{Env: missing}, errs: []string{missing, "KUBECONFIG"}},
		"none of a list":   {options: LoadOptions{Env: missing + list + missing}, errs: []string{missing, "none of the files exists"}},
		"folder":           {options: LoadOptions{Flag: home}, errs: []string{home, "is a folder"}},
		"malformed":        {options: LoadOptions{Flag: malformed}, errs: []string{malformed, "config view"}},
		"mistyped":         {options: LoadOptions{Flag: mistyped}, errs: []string{mistyped, "config view"}},
		"empty":            {options: LoadOptions{Flag: empty}, errs: []string{empty, "no current context"}},
		"unknown context":  {options: LoadOptions{Flag: good, Context: "nope"}, errs: []string{good, `no context "nope"`}},
		"dangling context": {options: LoadOptions{Flag: good, Context: "bad"}, errs: []string{good, "bad"}},
		"nothing":          {options: LoadOptions{}, errs: []string{"--kubeconfig", "KUBECONFIG", "not running in a pod"}},
		"no home file":     {options: LoadOptions{AllowHome: true, Home: home}, errs: []string{filepath.Join(home, ".kube", "config"), "--kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			config, description, err := LoadConfig(test.options)
			if test.errs != nil {
				require.Error(t, err)
				for _, text := range test.errs {
					require.ErrorContains(t, err, text)
				}
				require.NotContains(t, err.Error(), "SECRET")
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.host, config.Host)
			require.Equal(t, test.description, description)
			require.Equal(t, "SECRET", config.BearerToken)
		})
	}

	write(".kube/config", kubeconfig)
	_, description, err := LoadConfig(LoadOptions{AllowHome: true, Home: home})
	require.NoError(t, err)
	require.Contains(t, description, "context dev")
	_, _, err = LoadConfig(LoadOptions{Home: home})
	require.ErrorContains(t, err, "not running in a pod", "home is only read where it is allowed")

	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	_, _, err = LoadConfig(LoadOptions{AllowHome: true, Home: home})
	require.ErrorContains(t, err, "automountServiceAccountToken", "in a pod nothing else is tried")
}
