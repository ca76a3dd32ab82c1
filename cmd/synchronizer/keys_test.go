// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/api"
	"synchronizer/internal/link/stock"
)

const keysConfig = `{"backend":{"accessKeys":"store","listen":"127.0.0.1:0","healthPort":0},"api":{"listen":"API"}}`

// ok runs a command that succeeds.
func (p *program) ok(args ...string) (stdout, stderr string) {
	p.t.Helper()
	code, stdout, stderr := p.run(args...)
	require.Equal(p.t, 0, code, stdout+stderr)
	return stdout, stderr
}

func keyOf(t *testing.T, stdout string) (key api.AccessKey) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(stdout), &key), stdout)
	return key
}

// TestKeysOfARunningServer: a key is made, a client comes in with it, the key is
// revoked, and nobody comes in with it any more. Both ways lead to the server.
func TestKeysOfARunningServer(t *testing.T) {
	p := newProgram(t)
	up := p.start([]string{"up", "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0", "--health-port", "0"})
	at := p.addresses()
	server := "--server=" + at.API
	p.write("config/config.json", strings.Replace(keysConfig, "API", at.API, 1))

	stdout, stderr := p.ok("keys", "create", "--account", "acme", "--cluster", "prod", "--description", "first one", server)
	require.Contains(t, stderr, "shown only now")
	require.Regexp(t, `(?m)^ID +[0-9a-f]{16}\nAccount +acme\nCluster +prod\nDescription +first one\nRevoked +-\nAccess key +[A-Z2-7]{52}$`, stdout)
	secret := stdout[strings.LastIndex(strings.TrimSpace(stdout), " ")+1:]
	secret = strings.TrimSpace(secret)

	// This configuration is that of the server, which has the file locked.
	stdout, stderr = p.ok("keys", "create", "--account", "acme", "-o", "json", "--config", "config")
	require.Empty(t, stderr)
	whole := keyOf(t, stdout)
	require.Len(t, whole.Secret, 52)

	// Another configuration of the same store does not look at its keys.
	p.write("anonymous/config.json", strings.NewReplacer("API", at.API, `"accessKeys":"store",`, "").Replace(keysConfig))
	_, stderr = p.ok("keys", "list", "--config", "anonymous")
	require.Contains(t, stderr, `backend.accessKeys is not "store"`)

	stdout, _ = p.ok("keys", "list", server)
	require.NotContains(t, stdout, secret)
	require.Regexp(t, `(?m)^ID +ACCOUNT +CLUSTER +AGE +REVOKED +DESCRIPTION\n[0-9a-f]{16} +acme +\* +\d+s +- +-\n[0-9a-f]{16} +acme +prod +\d+s +- +first one\n[0-9a-f]{16} +local +\* `, stdout)
	list, _ := p.ok("keys", "list", "--account", "acme", "-o", "json", server)
	var keys api.AccessKeyList
	require.NoError(t, json.Unmarshal([]byte(list), &keys))
	require.Len(t, keys.Items, 2)

	connects := func(cluster, key string) int {
		_, response, err := stock.TryConnect(t, "http://"+at.Clients, stock.ClientOptions{Account: "acme", Cluster: cluster, AccessKey: key})
		if err == nil {
			return 101
		}
		require.NotNil(t, response, "%v", err)
		return response.StatusCode
	}
	require.Equal(t, 101, connects("prod", secret))
	require.Equal(t, 401, connects("other", secret))
	require.Equal(t, 101, connects("other", whole.Secret))

	id := synchronizer.SecretID(synchronizer.HashSecret(secret))
	completion, _ := p.ok("__complete", "keys", "revoke", server, "")
	require.Contains(t, completion, id+"\tacme/prod first one")
	stdout, _ = p.ok("keys", "revoke", id, server)
	require.Regexp(t, `(?m)^Revoked +20\d\d-`, stdout)
	require.NotContains(t, stdout, "Access key")
	require.Equal(t, 401, connects("prod", secret))
	require.Equal(t, 101, connects("prod", whole.Secret))
	stdout, _ = p.ok("keys", "list", server)
	require.NotContains(t, stdout, id)
	stdout, _ = p.ok("keys", "list", "--all", server)
	require.Contains(t, stdout, id)

	code, _, stderr := p.run("keys", "revoke", "0000", server)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `there is no access key "0000": `+"`synchronizer keys list`")
	code, _, stderr = p.run("keys", "create", "--account", "a/b", server)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "slash")
	require.NotContains(t, up.out.String(), secret)
	require.Equal(t, 0, up.terminate())
}

// TestKeysOfAStore that no server has open, and keys that clients have already.
func TestKeysOfAStore(t *testing.T) {
	p := newProgram(t)
	p.write("config/config.json", strings.Replace(keysConfig, "API", "127.0.0.1:0", 1))
	_, stderr := p.ok("keys", "list", "--config", "config")
	require.Contains(t, stderr, "No access keys. Make one: synchronizer keys create")
	stdout, _ := p.ok("keys", "list", "--config", "config", "-o", "json")
	require.JSONEq(t, `{"items":[]}`, stdout)

	file := p.write("key", "00000000-1111-4222-8333-444444444444\n")
	stdout, stderr = p.ok("keys", "create", "--account", "acme", "--key-file", file, "--config", "config", "-o", "json")
	require.Empty(t, stderr)
	made := keyOf(t, stdout)
	require.Equal(t, synchronizer.SecretID(synchronizer.HashSecret("00000000-1111-4222-8333-444444444444")), made.ID)
	require.NotContains(t, stdout, "00000000-1111")
	code, _, stderr := p.run("keys", "create", "--account", "acme", "--key-file", file, "--config", "config")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "known already, as "+made.ID)
	require.NotContains(t, stderr, "00000000-1111")

	stdout, _ = p.ok("keys", "revoke", made.ID, "--config", "config", "-o", "json")
	require.False(t, keyOf(t, stdout).Revoked.IsZero())

	p.write("other/config.json", `{"backend":{"listen":"127.0.0.1:0"}}`)
	_, stderr = p.ok("keys", "create", "--account", "acme", "--config", "other")
	require.Contains(t, stderr, `backend.accessKeys is not "store"`)
}

func TestKeysUsage(t *testing.T) {
	p := newProgram(t)
	p.write("empty", "")
	for _, test := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"keys nonsense", 2, "nonsense"},
		{"keys create", 2, "--account is missing"},
		{"keys create --account a -o xml", 2, "neither table nor json"},
		{"keys create --account a extra", 2, "extra"},
		{"keys create --account a --key-file absent", 1, "reading the key"},
		{"keys create --account a --key-file empty", 1, "empty is empty"},
		{"keys list --config absent", 2, "absent"},
		{"keys list --config c --server s", 2, "config server"},
		{"keys list", 1, "--token-file"},
		{"keys revoke", 2, "arg"},
	} {
		code, _, stderr := p.run(strings.Fields(test.args)...)
		require.Equal(t, test.code, code, "%s: %s", test.args, stderr)
		require.Contains(t, stderr, test.stderr)
	}
	stdout, _ := p.ok("keys")
	require.Contains(t, stdout, "revoke")
}
