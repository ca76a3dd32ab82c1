// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer"
	"synchronizer/internal/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(func(ctx context.Context, path string) (synchronizer.Store, error) { return Open(ctx, path) })
	goleak.VerifyTestMain(m)
}

// backend is a DB that can be looked at as if its process had been killed.
type backend struct{ *DB }

func openBackend(t *testing.T) storetest.Backend { return &backend{openAt(t, newPath(t))} }

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "data", "synchronizer.db") }

func openAt(t testing.TB, path string, opts ...Option) *DB {
	t.Helper()
	db, err := Open(t.Context(), path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// Reopen copies the files as they are now, WAL and all, and opens the copy.
func (b *backend) Reopen(t *testing.T) storetest.Backend {
	path := newPath(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	for _, suffix := range []string{"", "-wal"} {
		from, err := os.Open(b.Path() + suffix)
		require.NoError(t, err)
		to, err := os.Create(path + suffix)
		require.NoError(t, err)
		_, err = io.Copy(to, from)
		require.NoError(t, err)
		require.NoError(t, from.Close())
		require.NoError(t, to.Close())
	}
	return &backend{openAt(t, path)}
}

func TestStore(t *testing.T) { storetest.Run(t, openBackend) }

func TestKill(t *testing.T) {
	path := newPath(t)
	storetest.Kill(t, path, func(t *testing.T) storetest.Backend {
		t.Helper()
		db, err := Open(t.Context(), path)
		require.NoError(t, err)
		return &backend{db}
	})
}

func TestFeedLength(t *testing.T) {
	const n = 5
	storetest.FeedLength(t, n, func(t *testing.T) storetest.Backend { return &backend{openAt(t, newPath(t), WithFeedLength(n))} })
}
