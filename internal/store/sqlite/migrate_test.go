// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/store/index"
)

// firstVersion makes a database as the first version of the schema had it, with a
// cluster, n pods and a tombstone.
func firstVersion(t *testing.T, path string, n int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, prepareFile(t.Context(), path))
	pool, err := sql.Open("sqlite", dsn(path, busyTimeout, "journal_mode(WAL)"))
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	files, err := fs.Sub(migrations, "migrations")
	require.NoError(t, err)
	provider, err := goose.NewProvider(goose.DialectSQLite3, pool, files, goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), 1)
	require.NoError(t, err)
	exec := func(text string, args ...any) {
		t.Helper()
		_, err := pool.ExecContext(t.Context(), text, args...)
		require.NoError(t, err)
	}
	exec("INSERT INTO clusters (id, account, name, generation) VALUES (1, 'acme', 'prod', 3)")
	exec("INSERT INTO sources (cluster, source, generation) VALUES (1, 's', 3)")
	exec("INSERT INTO kinds (id, cluster, grp, version, resource, objects) VALUES (1, 1, '', 'v1', 'pods', ?)", n)
	for i := range n {
		name := fmt.Sprintf("web-%04d", i)
		labels := fmt.Sprintf(`{"app":"shop-%d"}`, i%3)
		exec(`INSERT INTO objects (kind, ns, name, uid, rv, checksum, offered, gen, seq, updated_at, deleted_at, state, labels, body)
			VALUES (1, 'default', ?, 'u', '7', 'c', '', 3, ?, 1000000, 0, '', ?, ?)`, name, i+1, labels, `{"metadata":{"labels":`+labels+`}, "n": 1.0e2}`)
		exec("INSERT INTO labels (label, kind, obj) VALUES (?, 1, last_insert_rowid())", index.LabelHash("app", fmt.Sprintf("shop-%d", i%3)))
		exec("INSERT INTO changes (obj, op, at, gen, seq) VALUES (1, 1, 0, 3, 1)")
	}
	exec(`INSERT INTO objects (kind, ns, name, uid, rv, checksum, offered, gen, seq, updated_at, deleted_at, state)
		VALUES (1, 'default', 'gone', 'u', '7', '', '', 3, 9, 1000000, 1000000, '')`)
	exec("INSERT INTO access_keys (hash, account, cluster, created) VALUES (zeroblob(32), 'acme', '', 0)")
}

// TestMigrateFirstVersion: what the first schema had is there afterwards, and found
// by everything that came later.
func TestMigrateFirstVersion(t *testing.T) {
	ctx := t.Context()
	path := newPath(t)
	const n = 250
	firstVersion(t, path, n)

	_, err := Open(ctx, path, WithoutMigration())
	require.ErrorIs(t, err, ErrNotMigrated)
	require.ErrorContains(t, err, "synchronizer store migrate")
	from, to, err := Migrate(ctx, path)
	require.NoError(t, err)
	require.Equal(t, int64(1), from)
	require.Greater(t, to, from)
	from, again, err := Migrate(ctx, path)
	require.NoError(t, err)
	require.Equal(t, [2]int64{to, to}, [2]int64{from, again})

	db := openAt(t, path, WithoutMigration())
	require.NoError(t, db.Check(ctx, func(problem string) { t.Error(problem) }))
	page, err := db.Objects(ctx, synchronizer.ObjectQuery{Account: "acme", Search: "web 0007", Full: true})
	require.NoError(t, err)
	require.Len(t, page.Rows, 1)
	require.Equal(t, `{"metadata":{"labels":{"app":"shop-1"}}, "n": 1.0e2}`, string(page.Rows[0].Body))
	require.Equal(t, synchronizer.Order{Generation: 3, Seq: 8}, page.Rows[0].Order)
	sets, err := db.Sets(ctx, synchronizer.ClusterKind{ClusterID: prod, Kind: pods})
	require.NoError(t, err)
	require.Len(t, sets, 1)
	require.Equal(t, int64(n), sets[0].Count)
	gone, err := db.Object(ctx, synchronizer.ObjectKey{ClusterID: prod, Kind: pods, Namespace: "default", Name: "gone"})
	require.NoError(t, err)
	require.True(t, gone.Deleted())
	_, err = db.AccessKey(ctx, [32]byte{})
	require.NoError(t, err)

	// Who followed a feed that had no readers begins anew.
	_, err = db.Changes(ctx, "acme", 0, 0)
	require.ErrorIs(t, err, synchronizer.ErrGone)
	position, err := db.Position(ctx, "acme")
	require.NoError(t, err)
	require.NoError(t, put(ctx, db, pod("default", "new", 10, `"app":"shop-1"`)))
	changes, err := db.Changes(ctx, "acme", position, 0)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.NoError(t, db.Check(ctx, func(problem string) { t.Error(problem) }))
	require.Equal(t, int64(n+2), number(t, db, "SELECT max(id) FROM objects"), "no number is given twice")
}

// TestCheck: what does not agree is found.
func TestCheck(t *testing.T) {
	ctx := t.Context()
	for _, damage := range []string{
		"DELETE FROM labels", "UPDATE labels SET label = label + 1", "DELETE FROM words WHERE word = (SELECT min(word) FROM words)",
		"UPDATE words SET obj = obj + 1", "UPDATE objects SET words = NULL", `UPDATE objects SET labels = '{"a":"c"}'`, "UPDATE objects SET h1 = h1 + 1",
		"DELETE FROM objects", "UPDATE kinds SET objects = 7", "UPDATE accounts SET feed_position = 0",
		"UPDATE objects SET body = '{}'", "INSERT INTO labels VALUES (1, 999, 1)", "INSERT INTO words VALUES (1, 999, 1)",
	} {
		db := openAt(t, newPath(t))
		require.NoError(t, put(ctx, db, pod("n", "web", 1, `"a":"bc"`)))
		require.NoError(t, db.Check(ctx, func(problem string) { t.Error(problem) }))
		_, err := db.write.conn.ExecContext(ctx, damage)
		require.NoError(t, err)
		problems := 0
		require.NoError(t, db.Check(ctx, func(string) { problems++ }))
		require.Positive(t, problems, damage)
	}
}
