// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/store/storetest"
)

func TestExamples(t *testing.T) {
	db := openAt(t, newPath(t))
	storetest.Examples(t, "SQLite", &backend{db}, func(t *testing.T, text string) (n int) {
		t.Helper()
		rows, err := db.read.QueryContext(t.Context(), text)
		require.NoError(t, err)
		for rows.Next() {
			n++
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
		return n
	})
}

// TestBackup is the way of docs/store.md.
func TestBackup(t *testing.T) {
	db := openAt(t, newPath(t))
	storetest.Fill(t, &backend{db})
	copied := filepath.Join(t.TempDir(), "backup.db")
	_, err := db.write.conn.ExecContext(t.Context(), "VACUUM INTO ?", copied)
	require.NoError(t, err)
	path := newPath(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.Rename(copied, path))
	restored := openAt(t, path)
	storetest.RequireSame(t, &backend{db}, &backend{restored})
	require.Equal(t, int64(pageSize), number(t, restored, "PRAGMA page_size"))
}
