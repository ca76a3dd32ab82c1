// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/store/sqlite"
)

// keyFleet is an API with administrators of all, of account a, and of one cluster.
func keyFleet(t *testing.T) (f *fleet, db *sqlite.DB, log *bytes.Buffer) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for secret, token := range map[string]synchronizer.APIToken{
		"admin": {Scope: "admin"}, "admin-a": {Account: "a", Scope: "admin"}, "admin-a-c": {Account: "a", Cluster: "c", Scope: "admin"},
		"read": {Scope: "read"}, "command": {Account: "a", Scope: "command"},
	} {
		require.NoError(t, db.AddAPIToken(t.Context(), synchronizer.HashSecret(secret), token))
	}
	log = &bytes.Buffer{}
	return serve(t, Options{
		Reader: db, Credentials: db, Keys: db, Ready: func() error { return nil }, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}), db, log
}

func (f *fleet) do(method, token, path, body string) (int, string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, strings.NewReader(body))
	require.NoError(f.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := f.http.Do(r)
	require.NoError(f.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(f.t, err)
	return response.StatusCode, string(text)
}

// TestKeys: one who may makes a key, which is shown once, lets clients in, is
// listed, and is revoked.
func TestKeys(t *testing.T) {
	f, db, log := keyFleet(t)
	c := &Client{Server: f.url, Token: "admin", HTTP: f.http}
	made, err := c.CreateKey(t.Context(), NewAccessKey{Account: "a", Cluster: "My Cluster", Description: "<for> Ann"})
	require.NoError(t, err)
	require.Len(t, made.Secret, 52)
	require.False(t, made.Created.IsZero())
	hash := synchronizer.HashSecret(made.Secret)
	require.Equal(t, synchronizer.SecretID(hash), made.ID)
	key, err := db.AccessKey(t.Context(), hash)
	require.NoError(t, err)
	require.Equal(t, synchronizer.AccessKey{Account: "a", Cluster: "My Cluster", Created: made.Created}, key)

	second, err := c.CreateKey(t.Context(), NewAccessKey{Account: "b", Secret: "a-key-that-clients-have"})
	require.NoError(t, err)
	require.Equal(t, "a-key-that-clients-have", second.Secret)
	require.NotEqual(t, made.ID, second.ID)

	list, err := c.Keys(t.Context(), "")
	require.NoError(t, err)
	shown := made
	shown.Secret, second.Secret = "", ""
	require.Equal(t, []AccessKey{shown, second}, list)
	list, err = c.Keys(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, []AccessKey{second}, list)

	revoked, err := c.RevokeKey(t.Context(), made.ID)
	require.NoError(t, err)
	require.False(t, revoked.Revoked.IsZero())
	_, err = db.AccessKey(t.Context(), hash)
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	_, err = c.RevokeKey(t.Context(), "absent")
	require.True(t, IsNotFound(err), "%v", err)

	require.Contains(t, log.String(), "access key created")
	require.Contains(t, log.String(), "access key revoked")
	for _, secret := range []string{made.Secret, "a-key-that-clients-have"} {
		require.NotContains(t, log.String(), secret)
	}
}

// TestKeysAreForAdministrators of the account that they are of.
func TestKeysAreForAdministrators(t *testing.T) {
	f, db, _ := keyFleet(t)
	of := map[string]string{}
	for _, account := range []string{"a", "b"} {
		key, err := IssueKey(t.Context(), db, NewAccessKey{Account: account}, when)
		require.NoError(t, err)
		of[account] = key.ID
	}
	const keys = "/api/v1/accesskeys"
	for _, test := range []struct {
		token, method, path, body string
		status                    int
		says                      string
	}{
		{"nobody", "GET", keys, "", 401, "unknown"},
		{"read", "GET", keys, "", 403, "scope admin"},
		{"command", "POST", keys, `{"account":"a"}`, 403, "scope admin"},
		{"admin-a-c", "DELETE", keys + "/" + of["a"], "", 403, "whole account"},
		{"admin-a", "GET", keys + "?account=b", "", 404, "no such account"},
		{"admin-a", "POST", keys, `{"account":"b"}`, 404, "no such account"},
		{"admin-a", "DELETE", keys + "/" + of["b"], "", 404, "not found"},
		{"admin-a", "GET", keys, "", 200, of["a"]},
		{"admin-a", "POST", keys, `{}`, 201, `"account":"a"`},
		{"admin-a", "DELETE", keys + "/" + of["a"], "", 200, "revoked"},
		{"admin", "POST", keys, `{}`, 400, "account is empty"},
		{"admin", "POST", keys, `{"account":"a/b"}`, 400, "slash"},
		{"admin", "POST", keys, `{"account":" a"}`, 400, "white space"},
		{"admin", "POST", keys, `{"account":"a","cluster":"` + strings.Repeat("c", 513) + `"}`, 400, "longer than 512 bytes"},
		{"admin", "POST", keys, `{"account":"a","secret":"short"}`, 400, "16 to 512"},
		{"admin", "POST", keys, `{"account":"a","secret":"with a blank in it, long"}`, 400, "printable ASCII"},
		{"admin", "POST", keys, `{"account":"a","unknown":1}`, 400, "unknown"},
		{"admin", "POST", keys, `[`, 400, "not a new access key"},
		{"admin", "POST", keys, `{"account":"` + strings.Repeat("a", maxKeyRequest) + `"}`, 400, "too large"},
		{"admin", "GET", keys + "?nonsense=1", "", 400, "nonsense"},
	} {
		status, text := f.do(test.method, test.token, test.path, test.body)
		require.Equal(t, test.status, status, "%+v: %s", test, text)
		require.Contains(t, text, test.says, "%+v", test)
		require.NotContains(t, text, "with a blank in it", "what was given is not repeated")
		if test.token == "admin-a" {
			require.NotContains(t, text, of["b"]+`",`, "nothing of another account")
		}
	}
	good, err := db.AccessKeys(t.Context(), "b")
	require.NoError(t, err)
	require.Len(t, good, 1)
	require.True(t, good[0].Revoked.IsZero())

	var p Problem
	_, text := f.do("POST", "admin", keys, `{"account":"c","secret":"a-key-that-clients-have"}`)
	require.NoError(t, json.Unmarshal([]byte(text), &struct{}{}))
	status, text := f.do("POST", "admin-a", keys, `{"account":"a","secret":"a-key-that-clients-have"}`)
	require.Equal(t, 400, status)
	require.NoError(t, json.Unmarshal([]byte(text), &p))
	require.NotContains(t, p.Detail, `"c"`, "whose it is, is not told")
}
