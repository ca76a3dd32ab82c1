// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

const (
	eventually = time.Minute
	tick       = 5 * time.Millisecond
)

var (
	pods = synchronizer.Kind{Version: "v1", Resource: "pods"}
	prod = synchronizer.ClusterID{Account: "acme", Cluster: "prod"}
)

func pod(ns, name string, seq uint64, labels string) synchronizer.Row {
	return synchronizer.Row{
		Key: synchronizer.ObjectKey{ClusterID: prod, Kind: pods, Namespace: ns, Name: name},
		UID: "u", Order: synchronizer.Order{Generation: 1, Seq: seq}, UpdatedAt: time.Unix(1e9, 0),
		Body: []byte(`{"metadata":{"labels":{` + labels + `}}}`),
	}
}

func put(ctx context.Context, db *DB, rows ...synchronizer.Row) error {
	keys := make([]synchronizer.ObjectKey, len(rows))
	for i := range rows {
		keys[i] = rows[i].Key
	}
	return db.Update(ctx, func(tx synchronizer.Tx) error {
		if _, err := tx.Rows(ctx, keys, make([]bool, len(keys))); err != nil {
			return err
		}
		return tx.Write(ctx, rows)
	})
}

// number reads one integer beside the DB.
func number(t testing.TB, db *DB, query string, args ...any) (n int64) {
	t.Helper()
	require.NoError(t, db.read.QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}

func TestOpenMakesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c=d#e%20 ü", "x.db")
	db := openAt(t, path)
	require.NoError(t, put(t.Context(), db, pod("n", "n", 1, "")))
	require.Equal(t, path, db.Path())
	for name, mode := range map[string]os.FileMode{
		"": 0o600, "-wal": 0o600, "-shm": 0o600, ".lock": 0o600,
	} {
		info, err := os.Stat(path + name)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), "mode of %q", name)
	}
	info, err := os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	require.Equal(t, int64(pageSize), number(t, db, "PRAGMA page_size"))
	var mode string
	require.NoError(t, db.read.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode))
	require.Equal(t, "wal", mode)
	var synchronous int
	require.NoError(t, db.write.conn.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&synchronous))
	require.Equal(t, 2, synchronous)
	_, err = db.read.ExecContext(t.Context(), "DELETE FROM objects")
	require.Error(t, err, "readers do not write")
}

func TestCloseLeavesOneFile(t *testing.T) {
	path := newPath(t)
	db, err := Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, put(t.Context(), db, pod("n", "n", 1, "")))
	require.NoError(t, db.Close())
	require.NoFileExists(t, path+"-wal")
	db = openAt(t, path)
	_, err = db.Object(t.Context(), pod("n", "n", 1, "").Key)
	require.NoError(t, err)
}

func TestOpenInUse(t *testing.T) {
	path := newPath(t)
	db, err := Open(t.Context(), path)
	require.NoError(t, err)
	_, err = Open(t.Context(), path)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, path)
	require.NoError(t, db.Close())
	openAt(t, path)
}

func TestOpenNewerSchema(t *testing.T) {
	path := newPath(t)
	db, err := Open(t.Context(), path)
	require.NoError(t, err)
	_, err = db.write.conn.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = Open(t.Context(), path)
	require.ErrorIs(t, err, synchronizer.ErrSchemaTooNew)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "999")
}

func TestOpenRefuses(t *testing.T) {
	foreign := func(t *testing.T, path string) {
		pool, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = pool.ExecContext(t.Context(), "CREATE TABLE t (x)")
		require.NoError(t, err)
		require.NoError(t, pool.Close())
	}
	damaged := func(t *testing.T, path string) {
		db, err := Open(t.Context(), path)
		require.NoError(t, err)
		for i := range uint64(200) {
			require.NoError(t, put(t.Context(), db, pod("n", fmt.Sprint(i), i, `"a":"b"`)))
		}
		require.NoError(t, db.Close())
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(1, 2))
		for i := 100; i < len(content); i++ { // all but the header
			content[i] = byte(random.Uint32())
		}
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	for name, prepare := range map[string]func(*testing.T, string){
		"no database": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("no database. "), 1000), 0o600))
		},
		"of another program": foreign,
		"damaged":            damaged,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			prepare(t, path)
			_, err := Open(t.Context(), path)
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorContains(t, err, path)
		})
	}
	t.Run("folder", func(t *testing.T) {
		path := t.TempDir()
		_, err := Open(t.Context(), path)
		require.ErrorContains(t, err, path)
	})
	t.Run("file instead of a folder", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		_, err := Open(t.Context(), filepath.Join(file, "x.db"))
		require.ErrorContains(t, err, file)
	})
	t.Run("folder without permission", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o500))
		asNobody(t)
		_, err := Open(t.Context(), filepath.Join(dir, "x.db"))
		require.ErrorIs(t, err, os.ErrPermission)
		require.ErrorContains(t, err, dir)
	})
}

func TestDiskFull(t *testing.T) {
	ctx := t.Context()
	path := newPath(t)
	db, err := Open(ctx, path, WithMaxPages(64))
	require.NoError(t, err)
	require.NoError(t, put(ctx, db, pod("n", "first", 1, `"a":"b"`)))
	big := pod("n", "big", 2, "")
	big.Body = bytes.Repeat([]byte("x"), 2<<20)
	for range 2 {
		err = put(ctx, db, pod("n", "with-big", 2, ""), big)
		require.ErrorIs(t, err, ErrFull)
		require.NotErrorIs(t, err, synchronizer.ErrInvalid, "it is not the data's fault")
		require.ErrorContains(t, err, path)
	}
	require.NoError(t, put(ctx, db, pod("n", "second", 3, "")), "what fits goes on")
	require.Equal(t, int64(2), number(t, db, "SELECT count(*) FROM objects"))
	require.NoError(t, db.Close())

	db = openAt(t, path) // there is room now
	require.NoError(t, put(ctx, db, big))
	require.Equal(t, int64(3), number(t, db, "SELECT count(*) FROM objects"))
}

func TestBusy(t *testing.T) {
	ctx := t.Context()
	path := newPath(t)
	fast := func(s *settings) { s.busyTimeout, s.busyAttempts = 10*time.Millisecond, 3 }
	db := openAt(t, path, fast)
	foreign, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, foreign.Close()) }()
	foreign.SetMaxOpenConns(1)
	exec := func(text string) {
		_, err := foreign.ExecContext(ctx, text)
		require.NoError(t, err)
	}

	exec("BEGIN IMMEDIATE")
	err = put(ctx, db, pod("n", "n", 1, ""))
	require.ErrorContains(t, err, "locked")
	require.ErrorContains(t, err, path)
	require.NotErrorIs(t, err, synchronizer.ErrInvalid)

	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, put(short, db, pod("n", "n", 1, "")), context.DeadlineExceeded)

	db.write.settings.busyAttempts = 1000
	done := make(chan error, 1)
	go func() { done <- put(ctx, db, pod("n", "n", 1, "")) }()
	require.Eventually(t, func() bool { return len(db.write.turn) == 1 }, eventually, tick)
	exec("ROLLBACK")
	require.NoError(t, <-done)
}

func TestRevokedCredentials(t *testing.T) {
	ctx := t.Context()
	db := openAt(t, newPath(t))
	hash := [32]byte{7}
	require.NoError(t, db.AddAccessKey(ctx, hash, synchronizer.AccessKey{Account: "a"}))
	require.NoError(t, db.AddAPIToken(ctx, hash, synchronizer.APIToken{Account: "a", Scope: "read"}))
	for _, table := range []string{"access_keys", "api_tokens"} {
		_, err := db.write.conn.ExecContext(ctx, "UPDATE "+table+" SET revoked_at = 1")
		require.NoError(t, err)
	}
	_, err := db.AccessKey(ctx, hash)
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	_, err = db.APIToken(ctx, hash)
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	require.ErrorIs(t, db.AddAccessKey(ctx, hash, synchronizer.AccessKey{Account: "a"}), synchronizer.ErrInvalid, "a revoked key stays revoked")
}
