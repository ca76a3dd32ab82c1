// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/test/pgtest"
)

// TestOpenTogether: many processes open an empty database at once.
func TestOpenTogether(t *testing.T) {
	address := pgtest.Database(t)
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			db, err := Open(t.Context(), address)
			if err != nil {
				t.Error(err)
				return
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

func TestMigrateIsACallOfItsOwn(t *testing.T) {
	ctx := t.Context()
	address := pgtest.Database(t)
	_, err := Open(ctx, address, WithoutMigration())
	require.ErrorIs(t, err, ErrNotMigrated)
	require.ErrorContains(t, err, "synchronizer store migrate")
	from, to, err := Migrate(ctx, address)
	require.NoError(t, err)
	require.Zero(t, from)
	require.Positive(t, to)
	from, again, err := Migrate(ctx, address)
	require.NoError(t, err)
	require.Equal(t, [2]int64{to, to}, [2]int64{from, again})
	db := openAt(t, address, WithoutMigration())
	require.NoError(t, put(ctx, db, pod("n", "x", 1)))

	_, err = db.pool.Exec(ctx, "INSERT INTO schema_versions (version_id, is_applied) VALUES (999, true)")
	require.NoError(t, err)
	_, err = Open(ctx, address)
	require.ErrorIs(t, err, synchronizer.ErrSchemaTooNew)
	_, _, err = Migrate(ctx, address)
	require.ErrorIs(t, err, synchronizer.ErrSchemaTooNew)
}

func TestEnvironment(t *testing.T) {
	address := pgtest.Database(t)
	u, err := url.Parse(address)
	require.NoError(t, err)
	t.Setenv("PGHOST", u.Query().Get("host"))
	t.Setenv("PGPORT", u.Query().Get("port"))
	t.Setenv("PGUSER", "postgres")
	t.Setenv("PGDATABASE", strings.TrimPrefix(u.Path, "/"))
	db := openAt(t, "")
	require.NoError(t, put(t.Context(), db, pod("n", "x", 1)))
	_, err = openAt(t, address).Object(t.Context(), pod("n", "x", 1).Key)
	require.NoError(t, err)
}

func TestBadURLs(t *testing.T) {
	for _, address := range []string{
		"postgres://u:hunter2@h:1/%zz", "postgres://u:hunter2@h:notaport/db", "host=h password=hunter2 port=x", "mysql://u:hunter2@h/db",
		"postgres://u:hunter2@h/db?sslmode=nonsense", "postgres://u:hunter2@h/db?sslrootcert=/does/not/exist",
	} {
		_, err := Open(t.Context(), address)
		require.Error(t, err, address)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestUnsuitableDatabase(t *testing.T) {
	s := pgtest.Start(t)
	s.Exec(t, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	_, err := Open(t.Context(), s.URL("latin"))
	require.ErrorContains(t, err, "LATIN1")
	_, err = Open(t.Context(), s.URL("none"))
	require.ErrorContains(t, err, "none")
	require.NotErrorIs(t, err, synchronizer.ErrInvalid)
}

func TestRevokedCredentials(t *testing.T) {
	ctx := t.Context()
	db := openAt(t, pgtest.Database(t))
	hash := [32]byte{7}
	require.NoError(t, db.AddAccessKey(ctx, hash, synchronizer.AccessKey{Account: "a"}))
	require.NoError(t, db.AddAPIToken(ctx, hash, synchronizer.APIToken{Account: "a", Scope: "read"}))
	for _, table := range []string{"access_keys", "api_tokens"} {
		_, err := db.pool.Exec(ctx, "UPDATE "+table+" SET revoked_at = now()")
		require.NoError(t, err)
	}
	_, err := db.AccessKey(ctx, hash)
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	_, err = db.APIToken(ctx, hash)
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	require.ErrorIs(t, db.AddAccessKey(ctx, hash, synchronizer.AccessKey{Account: "a"}), synchronizer.ErrInvalid, "a revoked key stays revoked")
}

// TestCheck: what does not agree is found.
func TestCheck(t *testing.T) {
	ctx := t.Context()
	for _, damage := range []string{
		"UPDATE objects SET terms = NULL", "UPDATE objects SET terms = terms[2:]", "UPDATE objects SET labels = '{\"a\":\"c\"}'", "UPDATE objects SET h1 = h1 + 1", "UPDATE sets SET h2 = h2 + 1",
		"DELETE FROM objects", "UPDATE sets SET objects = 7", "DELETE FROM sets", "UPDATE kinds SET objects = 7", "UPDATE accounts SET feed_position = 0",
		"UPDATE objects SET body = '{}'", "INSERT INTO sets VALUES (999, 'n', 1, 1, 1)",
	} {
		db := openAt(t, pgtest.Database(t))
		require.NoError(t, put(ctx, db, pod("n", "web", 1)))
		require.NoError(t, db.Check(ctx, func(problem string) { t.Error(problem) }))
		_, err := db.pool.Exec(ctx, damage)
		require.NoError(t, err)
		problems := 0
		require.NoError(t, db.Check(ctx, func(string) { problems++ }))
		require.Positive(t, problems, damage)
	}
}
