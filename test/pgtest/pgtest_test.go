// SPDX-License-Identifier: Apache-2.0

package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer/test/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

func query(t *testing.T, url, text string) (result string, err error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(t.Context()) }()
	err = conn.QueryRow(t.Context(), text).Scan(&result)
	return result, err
}

func TestDatabasesAreApart(t *testing.T) {
	one, two := pgtest.Database(t), pgtest.Database(t)
	_, err := query(t, one, "CREATE TABLE x AS SELECT 'one' AS name")
	require.ErrorIs(t, err, pgx.ErrNoRows)
	name, err := query(t, one, "SELECT name FROM x")
	require.NoError(t, err)
	require.Equal(t, "one", name)
	_, err = query(t, two, "SELECT name FROM x")
	require.ErrorContains(t, err, "does not exist")
}

func TestOwnServer(t *testing.T) {
	s := pgtest.Start(t, "work_mem=7MB")
	url := s.Database(t)
	memory, err := query(t, url, "SHOW work_mem")
	require.NoError(t, err)
	require.Equal(t, "7MB", memory)
	_, err = query(t, url, "CREATE TABLE x AS SELECT 'kept' AS name")
	require.ErrorIs(t, err, pgx.ErrNoRows)
	for name, end := range map[string]func(testing.TB){"stop": s.Stop, "kill": s.Kill} {
		end(t)
		_, err = query(t, url, "SELECT name FROM x")
		require.Error(t, err, name)
		s.Start(t)
		kept, err := query(t, url, "SELECT name FROM x")
		require.NoError(t, err, name)
		require.Equal(t, "kept", kept)
	}
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	s.Terminate(t)
	require.Error(t, conn.Ping(t.Context()))
}

func TestSmallDatabase(t *testing.T) {
	s := pgtest.Start(t)
	url, ok := s.SmallDatabase(t, 32<<20)
	if !ok {
		return // the log says why; nothing depends on it but tests of a full disk
	}
	_, err := query(t, url, "CREATE TABLE x AS SELECT repeat(md5(n::text), 20) FROM generate_series(1, 100000) n")
	require.ErrorContains(t, err, "No space left on device")
}
