// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"synchronizer/internal/ingest"
	"synchronizer/test/pgtest"
)

// What can happen to PostgreSQL while records come in: nothing that was
// acknowledged is lost, nothing else is skipped, readiness says what is, and it
// goes on by itself.
func TestPostgresInterrupted(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, "deadlock_timeout=50ms")
	for _, c := range []struct {
		name string
		do   func(t *testing.T, r *ingestRig)
	}{
		{"stopped and started", func(t *testing.T, r *ingestRig) {
			for range 2 {
				r.progress()
				server.Stop(t)
				r.ready(false)
				r.progress()
				server.Start(t)
				r.ready(true)
			}
		}},
		{"killed", func(t *testing.T, r *ingestRig) {
			r.progress()
			server.Kill(t)
			r.ready(false)
			server.Start(t)
			r.ready(true)
			r.progress()
		}},
		{"connections ended", func(t *testing.T, r *ingestRig) {
			for range 8 {
				server.Terminate(t)
				r.progress()
			}
		}},
		{"frozen", func(t *testing.T, r *ingestRig) {
			r.progress()
			thaw := server.Freeze(t)
			r.progress()
			r.progress()
			thaw()
			r.progress()
		}},
		{"deadlocks", func(t *testing.T, r *ingestRig) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- lockBackwards(ctx, r.url) }()
			for range 10 {
				r.progress()
			}
			cancel()
			require.NoError(t, <-done)
			require.Positive(t, deadlocks(t, r.url), "there were none")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := server.Database(t)
			r := startIngest(t, openPostgres(t, url), func(o *ingest.Options) { o.Workers = 2 })
			r.url = url
			r.writeWhile(func() { c.do(t, r) })
		})
	}
	t.Run("away at the start", func(t *testing.T) {
		store := openPostgres(t, server.Database(t))
		server.Stop(t)
		r := startIngest(t, store, nil)
		r.writeWhile(func() {
			r.progress()
			require.Error(t, r.ingester.Ready())
			server.Start(t)
			r.ready(true)
		})
	})
}

// The disk of the database is full, and has room again later.
func TestPostgresFull(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url, ok := server.SmallDatabase(t, 24<<20)
	if !ok {
		t.Skip("this user may not mount a file system for a full disk")
	}
	store := openPostgres(t, url)
	// One connection for all of it: a new one to a full disk may be refused, because
	// it cannot write the server's cache of the catalogue.
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	ballast := func(statement string) error {
		_, err := conn.Exec(t.Context(), statement)
		return err
	}
	require.NoError(t, ballast("CREATE TABLE ballast (t text)"))
	require.NoError(t, ballast("ALTER TABLE ballast ALTER t SET STORAGE PLAIN"))
	fill := func() error {
		return ballast("INSERT INTO ballast SELECT repeat('x', 7000) FROM generate_series(1, 60)")
	}
	r := startIngest(t, store, nil)
	r.writeWhile(func() {
		r.progress()
		for fill() == nil && r.ingester.Ready() == nil { // until nothing fits
		}
		r.ready(false)
		eventually(t, "it says what the database lacks", func() bool {
			err := r.ingester.Ready()
			return err != nil && strings.Contains(err.Error(), "no space left")
		})
		r.progress()
		require.Error(t, r.ingester.Ready())
		require.NoError(t, ballast("DROP TABLE ballast"))
		r.ready(true)
	})
}

// deadlocks is how many the server has ended in a database.
func deadlocks(t *testing.T, url string) (n int64) {
	t.Helper()
	eventually(t, "the server tells of deadlocks", func() bool {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return false
		}
		err = conn.QueryRow(t.Context(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&n)
		return errors.Join(err, conn.Close(t.Context())) == nil && n > 0
	})
	return n
}

// lockBackwards locks objects in another order than the store does, again and
// again, so that each waits for the other.
func lockBackwards(ctx context.Context, url string) error {
	for ctx.Err() == nil {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			continue
		}
		tx, err := conn.Begin(ctx)
		if err == nil {
			for _, name := range []string{"object-9", "object-5", "object-31", "object-3", "object-20", "object-12", "object-1", "object-0"} {
				if _, err = tx.Exec(ctx, "SELECT FROM objects WHERE name = $1 FOR UPDATE", name); err != nil {
					break // the victim of a deadlock
				}
			}
			_ = tx.Rollback(ctx)
		}
		_ = conn.Close(context.WithoutCancel(ctx))
	}
	return nil
}
