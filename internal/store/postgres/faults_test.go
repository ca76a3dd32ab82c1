// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/test/pgtest"
)

const (
	eventually = 30 * time.Second
	tick       = 5 * time.Millisecond
)

var (
	pods = synchronizer.Kind{Version: "v1", Resource: "pods"}
	prod = synchronizer.ClusterID{Account: "acme", Cluster: "prod"}
)

func pod(ns, name string, seq uint64) synchronizer.Row {
	return synchronizer.Row{
		Key: synchronizer.ObjectKey{ClusterID: prod, Kind: pods, Namespace: ns, Name: name},
		UID: "u", Order: synchronizer.Order{Generation: 1, Seq: seq}, UpdatedAt: time.Unix(1e9, 0),
		Body: []byte(`{"metadata":{"labels":{"a":"b"}}}`),
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

// requireAway: the error says that the database is at fault, not the data.
func requireAway(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, ErrAway)
	require.NotErrorIs(t, err, synchronizer.ErrInvalid)
}

// TestAway: whatever happens to the server, calls fail until it is there again, and
// then work without anything being opened anew.
func TestAway(t *testing.T) {
	ctx := t.Context()
	s := pgtest.Start(t)
	db := openAt(t, s.Database(t))
	require.NoError(t, put(ctx, db, pod("n", "first", 1)))
	for name, end := range map[string]func(testing.TB){"stop": s.Stop, "kill": s.Kill} {
		end(t)
		for range 2 {
			requireAway(t, put(ctx, db, pod("n", name, 2)))
		}
		_, err := db.Object(ctx, pod("n", "first", 1).Key)
		requireAway(t, err)
		s.Start(t)
		require.NoError(t, put(ctx, db, pod("n", name, 3)), "at once, although old connections are in the pool")
		_, err = db.Object(ctx, pod("n", "first", 1).Key)
		require.NoError(t, err)
	}
	for range 3 {
		s.Terminate(t)
		require.NoError(t, put(ctx, db, pod("n", "terminated", 4)))
		s.Terminate(t)
		_, err := db.Objects(ctx, synchronizer.ObjectQuery{})
		require.NoError(t, err)
	}
}

// TestLostInTheMiddle: a transaction whose connection is killed is run again as a
// whole, once.
func TestLostInTheMiddle(t *testing.T) {
	ctx := t.Context()
	s := pgtest.Start(t)
	db := openAt(t, s.Database(t))
	runs := 0
	require.NoError(t, db.Update(ctx, func(tx synchronizer.Tx) error {
		runs++
		if _, err := tx.Rows(ctx, []synchronizer.ObjectKey{pod("n", "x", 1).Key}, []bool{false}); err != nil {
			return err
		}
		if runs == 1 {
			s.Terminate(t)
		}
		return tx.Write(ctx, []synchronizer.Row{pod("n", "x", 1)})
	}))
	require.Equal(t, 2, runs)
	changes, err := db.Changes(ctx, "acme", 0, 0)
	require.NoError(t, err)
	require.Len(t, changes, 1)

	requireAway(t, db.Update(ctx, func(tx synchronizer.Tx) error {
		s.Terminate(t)
		return tx.Write(ctx, []synchronizer.Row{pod("n", "y", 1)})
	}))
	_, err = db.Object(ctx, pod("n", "y", 1).Key)
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
}

// TestAwayAtStart: opening says so, without the password.
func TestAwayAtStart(t *testing.T) {
	s := pgtest.Start(t)
	url := s.Database(t) + "&password=hunter2"
	s.Stop(t)
	_, err := Open(t.Context(), url)
	requireAway(t, err)
	require.NotContains(t, err.Error(), "hunter2")
	s.Start(t)
	openAt(t, url)
}

// TestSilentServer: a server that does not answer holds nobody longer than the
// context.
func TestSilentServer(t *testing.T) {
	s := pgtest.Start(t)
	db := openAt(t, s.Database(t))
	require.NoError(t, put(t.Context(), db, pod("n", "x", 1)))
	thaw := s.Freeze(t)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := put(ctx, db, pod("n", "x", 2))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, synchronizer.ErrInvalid)
		cancel()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := db.Objects(ctx, synchronizer.ObjectQuery{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	thaw()
	require.NoError(t, put(t.Context(), db, pod("n", "x", 3)))
}

// TestDiskFull: the transaction fails as a whole, what fits goes on, and it is not
// the data's fault. On a machine where no file system may be mounted, a quota of
// the server's stands in for it.
func TestDiskFull(t *testing.T) {
	ctx := t.Context()
	s := pgtest.Start(t)
	url, ok := s.SmallDatabase(t, 64<<20)
	if !ok {
		t.Skip("needs to mount a file system of its own: run as root")
	}
	db := openAt(t, url)
	require.NoError(t, put(ctx, db, pod("n", "first", 1)))
	big := pod("n", "big", 2)
	big.Body = make([]byte, 80<<20) // no JSON, so it is stored as it is
	for i := range big.Body {
		big.Body[i] = byte(i * i >> 7 * i)
	}
	for range 2 {
		err := put(ctx, db, pod("n", "with-big", 2), big)
		require.ErrorIs(t, err, ErrFull)
		require.NotErrorIs(t, err, synchronizer.ErrInvalid)
	}
	require.NoError(t, put(ctx, db, pod("n", "second", 3)), "what fits goes on")
	page, err := db.Objects(ctx, synchronizer.ObjectQuery{})
	require.NoError(t, err)
	require.Len(t, page.Rows, 2)
}

// TestManyProcesses: transactions of several processes meet on the same rows,
// clusters and kinds in any order; all succeed, and nothing is counted twice.
func TestManyProcesses(t *testing.T) {
	ctx := t.Context()
	url := pgtest.Database(t)
	const processes, rounds, objects = 4, 12, 6
	var wait sync.WaitGroup
	errs := make(chan error, processes)
	for p := range processes {
		db := openAt(t, url)
		wait.Go(func() {
			for round := range rounds {
				id := synchronizer.ClusterID{Account: "acme", Cluster: fmt.Sprintf("c%d", round%3)}
				err := db.Update(ctx, func(tx synchronizer.Tx) error {
					if _, err := tx.Generations(ctx, []synchronizer.ClusterSource{{ClusterID: id, Source: fmt.Sprintf("%d-%d", p, round/3)}}); err != nil {
						return err
					}
					var keys []synchronizer.ObjectKey
					for i := range objects {
						row := pod("n", fmt.Sprintf("o%d", ((1-2*(p%2))*i+round+objects)%objects), 0)
						row.Key.ClusterID = id
						row.Key.Kind.Resource = fmt.Sprintf("r%d", round%2)
						keys = append(keys, row.Key)
					}
					keys = keys[:1+p%objects]
					found, err := tx.Rows(ctx, keys, make([]bool, len(keys)))
					if err != nil {
						return err
					}
					rows := make([]synchronizer.Row, len(keys))
					for i := range keys {
						rows[i] = pod("n", "", 1)
						rows[i].Key = keys[i]
						if found[i] != nil {
							rows[i].Order.Seq = found[i].Order.Seq + 1
						}
					}
					return tx.Write(ctx, rows)
				})
				if err != nil {
					errs <- fmt.Errorf("process %d, round %d: %w", p, round, err)
					return
				}
			}
		})
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	db := openAt(t, url)
	page, err := db.Objects(ctx, synchronizer.ObjectQuery{Limit: 1000})
	require.NoError(t, err)
	total := uint64(0)
	for _, row := range page.Rows {
		total += row.Order.Seq
	}
	want := 0
	for p := range processes {
		want += rounds * (1 + p%objects)
	}
	require.Equal(t, uint64(want), total, "an update is lost")
	changes, err := db.Changes(ctx, "acme", 0, 10_000)
	require.NoError(t, err)
	require.Len(t, changes, want)
	for i := range changes {
		require.Equal(t, int64(i+1), changes[i].Position, "positions are dense")
	}
	require.NoError(t, db.Check(ctx, func(problem string) { t.Error(problem) }))
}

// TestDeadlock: of two transactions that wait for each other, the server ends one,
// which is run again.
func TestDeadlock(t *testing.T) {
	ctx := t.Context()
	db := openAt(t, pgtest.Database(t))
	a, b := pod("n", "a", 1), pod("n", "b", 1)
	require.NoError(t, put(ctx, db, a, b))
	var both sync.WaitGroup
	both.Add(2)
	errs := make(chan error, 2)
	for _, order := range [][2]synchronizer.Row{{a, b}, {b, a}} {
		go func() {
			first := true
			errs <- db.Update(ctx, func(tx synchronizer.Tx) error {
				for i, row := range order {
					if _, err := tx.Rows(ctx, []synchronizer.ObjectKey{row.Key}, []bool{false}); err != nil {
						return err
					}
					if i == 0 && first {
						first = false
						both.Done()
						both.Wait()
					}
				}
				return tx.Write(ctx, order[:])
			})
		}()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
}

// TestLateCommitIsNotSkipped: a transaction that has its positions and does not end
// holds up those of its account, and nobody else.
func TestLateCommitIsNotSkipped(t *testing.T) {
	ctx := t.Context()
	url := pgtest.Database(t)
	db := openAt(t, url)
	require.NoError(t, put(ctx, db, pod("n", "a", 1)))
	other := openAt(t, url)
	conn, err := other.pool.Acquire(ctx)
	require.NoError(t, err)
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, "UPDATE accounts SET feed_position = feed_position + 1 WHERE name = 'acme'")
	require.NoError(t, err)

	done := make(chan error, 1)
	go func() { done <- put(ctx, db, pod("n", "b", 1)) }()
	require.Eventually(t, func() bool {
		var waiting int
		err := other.pool.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()").Scan(&waiting)
		return err == nil && waiting == 1
	}, eventually, tick)
	changes, err := db.Changes(ctx, "acme", 0, 0)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	elsewhere := pod("n", "c", 1)
	elsewhere.Key.Account = "other"
	require.NoError(t, put(ctx, db, elsewhere), "another account goes on")

	_, err = tx.Exec(ctx, `INSERT INTO changes (account, pos, cluster, kind, op, gen, seq, ns, name)
		SELECT a.id, a.feed_position, c.id, 0, 3, 0, 0, '', '' FROM accounts a JOIN clusters c ON c.account = a.id WHERE a.name = 'acme'`)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	require.NoError(t, <-done)
	changes, err = db.Changes(ctx, "acme", 1, 0)
	require.NoError(t, err)
	require.Len(t, changes, 2)
	require.Equal(t, int64(2), changes[0].Position)
	require.Equal(t, synchronizer.ChangeClusterDeleted, changes[0].Op)
	require.Equal(t, "b", changes[1].Key.Name)
}

// TestBodiesAsSQL: SQL can look into every body that it could take apart, and stumbles
// over none.
func TestBodiesAsSQL(t *testing.T) {
	ctx := t.Context()
	db := openAt(t, pgtest.Database(t))
	for name, body := range map[string]string{
		"plain": `{"a":{"b":"c"}}`, "nul": `{"a":{"b":"\u0000"}}`, "half": `{"a":{"b":"\ud800"}}`, "swapped": `{"a":{"b":"\ude00\ud83d"}}`,
		"pair": `{"a":{"b":"\ud83d\ude00"}}`, "backslash": `{"a":{"b":"\\u0000"}}`, "broken": `{`, "bytes": "{\"a\":\"\xff\"}", "scalar": `1`,
		"two": `{"a":{"b":"\ud83d\ud83d\ude00"}}`, "huge": `{"a":{"b":1e999999}}`,
	} {
		row := pod("n", name, 1)
		row.Body = []byte(body)
		require.NoError(t, put(ctx, db, row), name)
	}
	rows, err := db.pool.Query(ctx, "SELECT name, body->'a'->>'b' FROM fleet_objects ORDER BY name")
	require.NoError(t, err)
	got := map[string]string{}
	for rows.Next() {
		var name string
		var value *string
		require.NoError(t, rows.Scan(&name, &value))
		if value != nil {
			got[name] = *value
		}
	}
	require.NoError(t, rows.Err())
	require.Equal(t, map[string]string{"plain": "c", "pair": "😀", "backslash": `\u0000`, "huge": "1e999999"}, got)
	row, err := db.Object(ctx, pod("n", "bytes", 1).Key)
	require.NoError(t, err)
	require.True(t, bytes.Equal([]byte("{\"a\":\"\xff\"}"), row.Body))
}

// TestFaultOfData: what the database itself refuses is the data's fault, so that
// the record is found.
func TestFaultOfData(t *testing.T) {
	ctx := t.Context()
	db := openAt(t, pgtest.Database(t))
	_, err := db.pool.Exec(ctx, "ALTER TABLE objects ADD CHECK (name <> 'poison')")
	require.NoError(t, err)
	err = put(ctx, db, pod("n", "good", 1), pod("n", "poison", 1))
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	// Who ignores the error of a statement does not commit half a transaction.
	err = db.Update(ctx, func(tx synchronizer.Tx) error {
		_ = tx.Write(ctx, []synchronizer.Row{pod("n", "poison", 1)})
		return nil
	})
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	require.NoError(t, put(ctx, db, pod("n", "good", 1)))
	require.False(t, errors.Is(err, ErrAway))
}
