// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/store/sqlite"
)

func openStore(t *testing.T) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// TestSecretsAreMadeOnce, and a new database goes on with those of the folder.
func TestSecretsAreMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	db := openStore(t)
	first, err := ensureSecrets(t.Context(), db, dir, true)
	require.NoError(t, err)
	require.True(t, first.Made)
	require.NotEqual(t, first.AccessKey, first.APIToken)
	require.GreaterOrEqual(t, len(first.AccessKey), 40)
	for _, file := range []string{first.AccessKeyFile, first.APITokenFile} {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "no half-written file is left")
	key, err := db.AccessKey(t.Context(), synchronizer.HashSecret(first.AccessKey))
	require.NoError(t, err)
	require.Equal(t, LocalAccount, key.Account)
	token, err := db.APIToken(t.Context(), synchronizer.HashSecret(first.APIToken))
	require.NoError(t, err)
	require.Equal(t, "admin", token.Scope)
	require.Empty(t, token.Account)

	first.Made = false
	for _, store := range []*sqlite.DB{db, openStore(t)} {
		again, err := ensureSecrets(t.Context(), store, dir, true)
		require.NoError(t, err)
		require.Equal(t, first, again)
		_, err = store.AccessKey(t.Context(), synchronizer.HashSecret(first.AccessKey))
		require.NoError(t, err)
	}
}

// TestSecretsWithoutKeys: where clients need no key, none is made.
func TestSecretsWithoutKeys(t *testing.T) {
	dir := t.TempDir()
	s, err := ensureSecrets(t.Context(), openStore(t), dir, false)
	require.NoError(t, err)
	require.Empty(t, s.AccessKey)
	require.NoFileExists(t, s.AccessKeyFile)
	require.FileExists(t, s.APITokenFile)
}

func TestSecretsThatCannotBe(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    string
	}{
		"empty token": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(TokenFile(dir), []byte(" \n"), 0o600))
		}, "api-token: the file is empty; remove it"},
		"empty key": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(accessKeyFile(dir), nil, 0o600))
		}, "access-key: the file is empty; remove it"},
		"a folder": {func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(TokenFile(dir), 0o700))
		}, "reading secret"},
		"nowhere to write": {func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(TokenFile(dir)+".new", 0o700))
		}, "writing secret"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.prepare(t, dir)
			_, err := ensureSecrets(t.Context(), openStore(t), dir, true)
			require.ErrorContains(t, err, test.want)
		})
	}
}
