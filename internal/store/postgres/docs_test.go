// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"synchronizer/internal/store/storetest"
	"synchronizer/test/pgtest"
)

func TestExamples(t *testing.T) {
	b := openBackend(t).(*backend)
	storetest.Examples(t, "PostgreSQL", b, func(t *testing.T, text string) (n int) {
		t.Helper()
		// As psql and dashboards do: one text, any number of statements.
		rows, err := b.pool.Query(t.Context(), text, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		for rows.Next() {
			n++
		}
		require.NoError(t, rows.Err())
		return n
	})
}

// TestBackup tries both ways of docs/store.md, with the server's own programs.
func TestBackup(t *testing.T) {
	original := openBackend(t).(*backend)
	storetest.Fill(t, original)
	run := func(name string, words ...string) {
		t.Helper()
		program, err := pgtest.Program(name)
		require.NoError(t, err)
		out, err := exec.CommandContext(t.Context(), program, words...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	file := filepath.Join(t.TempDir(), "store")
	for name, way := range map[string]struct{ dump, restore func(url string) }{
		"archive": {
			func(url string) { run("pg_dump", "-Fc", "-f", file, url) },
			func(url string) { run("pg_restore", "--no-owner", "-d", url, file) },
		},
		"SQL": {
			func(url string) { run("pg_dump", "-f", file, url) },
			func(url string) { run("psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", file) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.Database(t)
			way.dump(original.url)
			way.restore(url)
			storetest.RequireSame(t, original, &backend{openAt(t, url, WithoutMigration()), url})
		})
	}
}

// One object that no API server would take does not let the queries of all fail.
func TestViewsWithOddObjects(t *testing.T) {
	ctx := t.Context()
	db := openAt(t, pgtest.Database(t))
	for n, text := range []string{`web`, `\u0000`, `\ud800`, `\ud83d\ude00`, `\\u0000`, "\xff", `\u0001`} {
		row := pod("n", fmt.Sprint("o", n), uint64(n+1))
		row.Body = fmt.Appendf(nil, `{"metadata":{"name":"o%d","labels":{"app":"%[2]s","%[2]s":"x"}},"n":1e999}`, n, text)
		require.NoError(t, put(ctx, db, row))
	}
	rows, err := db.pool.Query(ctx, `SELECT name FROM fleet_objects WHERE (labels ->> 'app' = 'web' OR body -> 'metadata' ->> 'name' = 'o3')
		AND (labels IS NULL OR (SELECT count(*) FROM json_each_text(labels)) > 0) ORDER BY name`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"o0", "o3"}, names)
	require.NoError(t, db.Check(ctx, func(problem string) { t.Error(problem) }))
}
