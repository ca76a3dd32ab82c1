// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

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

// TestSecretsThatWereRevoked stay so, and the server starts all the same: to replace
// the first key is what the documentation tells to do.
func TestSecretsThatWereRevoked(t *testing.T) {
	dir := t.TempDir()
	db := openStore(t)
	first, err := ensureSecrets(t.Context(), db, dir, true)
	require.NoError(t, err)
	require.False(t, first.Revoked)
	hash := synchronizer.HashSecret(first.AccessKey)
	_, err = db.RevokeAccessKey(t.Context(), LocalAccount, synchronizer.SecretID(hash), time.Now())
	require.NoError(t, err)
	for range 2 {
		again, err := ensureSecrets(t.Context(), db, dir, true)
		require.NoError(t, err)
		require.True(t, again.Revoked)
		require.False(t, again.Made)
		_, err = db.AccessKey(t.Context(), hash)
		require.ErrorIs(t, err, synchronizer.ErrNotFound)
	}
	require.NoError(t, os.Remove(first.AccessKeyFile))
	another, err := ensureSecrets(t.Context(), db, dir, true)
	require.NoError(t, err)
	require.True(t, another.Made)
	require.False(t, another.Revoked)
	require.NotEqual(t, first.AccessKey, another.AccessKey)
	_, err = db.AccessKey(t.Context(), synchronizer.HashSecret(another.AccessKey))
	require.NoError(t, err)
}

// slower is a store to which another server adds the same key first.
type slower struct{ *sqlite.DB }

func (s slower) AddAccessKey(ctx context.Context, hash [32]byte, key synchronizer.AccessKey) error {
	if err := s.DB.AddAccessKey(ctx, hash, key); err != nil {
		return err
	}
	return s.DB.AddAccessKey(ctx, hash, key)
}

// TestSecretsOfTwoServers that have the same key and start at once.
func TestSecretsOfTwoServers(t *testing.T) {
	s, err := ensureSecrets(t.Context(), slower{openStore(t)}, t.TempDir(), true)
	require.NoError(t, err)
	require.False(t, s.Revoked)
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
