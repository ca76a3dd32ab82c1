// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer"
	"synchronizer/internal/store/storetest"
	"synchronizer/test/pgtest"
)

func TestMain(m *testing.M) {
	storetest.Main(func(ctx context.Context, url string) (synchronizer.Store, error) { return Open(ctx, url) })
	goleak.VerifyTestMain(pgtest.Main(m))
}

// backend is a DB whose server outlives it.
type backend struct {
	*DB
	url string
}

func openBackend(t *testing.T) storetest.Backend {
	url := pgtest.Database(t)
	return &backend{openAt(t, url), url}
}

func openAt(t testing.TB, url string, opts ...Option) *DB {
	t.Helper()
	db, err := Open(t.Context(), url, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// Reopen opens the database beside the one that is open.
func (b *backend) Reopen(t *testing.T) storetest.Backend { return &backend{openAt(t, b.url), b.url} }

func TestStore(t *testing.T) { storetest.Run(t, openBackend) }

func TestKill(t *testing.T) {
	url := pgtest.Database(t)
	storetest.Kill(t, url, func(t *testing.T) storetest.Backend {
		t.Helper()
		db, err := Open(t.Context(), url)
		require.NoError(t, err)
		return &backend{db, url}
	})
}

func TestFeedLength(t *testing.T) {
	const n = 5
	storetest.FeedLength(t, n, func(t *testing.T) storetest.Backend {
		url := pgtest.Database(t)
		return &backend{openAt(t, url, WithFeedLength(n)), url}
	})
}
