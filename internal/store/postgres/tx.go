// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"synchronizer"
)

var errTxOver = errors.New("using a transaction after its end")

// tx is one write transaction.
type tx struct {
	db     *DB
	conn   *pgx.Conn // nil after the end
	broken error     // why the server takes no more statements

	clusters map[synchronizer.ClusterID]clusterRow // locked
	kinds    map[synchronizer.ClusterKind]*kindRow
	known    map[rowKey]knownRow
	changed  []change
}

var _ synchronizer.Tx = (*tx)(nil)

// rowKey is the key of objects_key.
type rowKey struct {
	kind     int32
	ns, name string
}

// knownRow is what a write has to know of the row that it replaces; id 0 says
// that there is none.
type knownRow struct {
	id     int64
	live   bool
	h1, h2 int64
}

// Update implements synchronizer.Store.
func (db *DB) Update(ctx context.Context, fn func(synchronizer.Tx) error) error {
	return db.update(ctx, func(t *tx) error { return fn(t) })
}

// update runs fn in one transaction: again while others are in the way, and once
// again if the connection turns out to be lost before anything was committed.
func (db *DB) update(ctx context.Context, fn func(*tx) error) error {
	done, err := db.working()
	if err != nil {
		return err
	}
	defer done()
	lost := false
	for attempt := 1; ; attempt++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		committing, err := db.once(ctx, fn)
		switch {
		case err == nil:
			return nil
		case again(err) && attempt < attempts:
			if err := pause(ctx, attempt); err != nil {
				return err
			}
		case errors.Is(err, ErrAway) && !committing && !lost:
			lost = true
			db.pool.Reset() // the others are as old
		default:
			return err
		}
	}
}

// pause lets the others go first.
func pause(ctx context.Context, attempt int) error {
	select {
	case <-time.After(rand.N(time.Duration(attempt) * 4 * time.Millisecond)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// once runs fn in one transaction. It is rolled back on an error, when ctx ends
// and when fn does not return at all (a panic goes on to the caller). Committing
// says that the commit was on its way: after a lost connection nobody knows.
func (db *DB) once(ctx context.Context, fn func(*tx) error) (committing bool, err error) {
	pooled, err := db.pool.Acquire(ctx)
	if err != nil {
		return false, db.failure("connecting to the database", contextError(ctx, err))
	}
	defer pooled.Release()
	t := &tx{
		db: db, conn: pooled.Conn(),
		clusters: map[synchronizer.ClusterID]clusterRow{}, kinds: map[synchronizer.ClusterKind]*kindRow{}, known: map[rowKey]knownRow{},
	}
	if err := t.exec(ctx, "beginning a transaction", "BEGIN"); err != nil {
		return false, err
	}
	committed := false
	defer func() {
		conn := t.conn
		t.conn = nil
		if !committed && !conn.IsClosed() {
			// Not with ctx, which may have ended. A connection on which this fails is not
			// given back to the pool.
			detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_, _ = conn.Exec(detached, "ROLLBACK")
		}
	}()
	err = fn(t)
	switch {
	case err != nil:
		return false, contextError(ctx, err)
	case t.broken != nil:
		return false, t.broken
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	// From here on ctx has no say, so that its end does not leave it open whether the
	// transaction was committed.
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := t.commit(detached); err != nil {
		return true, err
	}
	committed = true
	return true, nil
}

// fail notes that the transaction is over for the server.
func (t *tx) fail(ctx context.Context, doing string, err error) error {
	err = t.db.failure(doing, contextError(ctx, err))
	if t.broken == nil {
		t.broken = err
	}
	return err
}

func (t *tx) exec(ctx context.Context, doing, text string, args ...any) error {
	if _, err := t.conn.Exec(ctx, text, args...); err != nil {
		return t.fail(ctx, doing, err)
	}
	return nil
}

// query calls scan for each row of the result.
func (t *tx) query(ctx context.Context, doing, text string, args []any, scan func(pgx.Rows) error) error {
	rows, err := t.conn.Query(ctx, text, args...)
	if err == nil {
		for err == nil && rows.Next() {
			err = scan(rows)
		}
		rows.Close()
		err = errors.Join(err, rows.Err())
	}
	if err != nil {
		return t.fail(ctx, doing, err)
	}
	return nil
}

// statement is one of a batch that goes to the server in one message.
type statement struct {
	doing string
	text  string
	args  []any
	rows  int64 // that it must have changed; -1: any number
}

// send runs statements in one message. A number of rows that is not the expected
// one says that another transaction was in the way.
func (t *tx) send(ctx context.Context, statements []statement) error {
	if len(statements) == 0 {
		return nil
	}
	var batch pgx.Batch
	for i := range statements {
		batch.Queue(statements[i].text, statements[i].args...)
	}
	results := t.conn.SendBatch(ctx, &batch)
	for i := range statements {
		s := &statements[i]
		tag, err := results.Exec()
		if err == nil && s.rows >= 0 && tag.RowsAffected() != s.rows {
			err = fmt.Errorf("%w: %d rows instead of %d", errRace, tag.RowsAffected(), s.rows)
		}
		if err == nil && s.text == commit && tag.String() != commit {
			err = errors.New("the server rolled back instead")
		}
		if err != nil {
			_ = results.Close()
			return t.fail(ctx, s.doing, err)
		}
	}
	if err := results.Close(); err != nil {
		return t.fail(ctx, statements[len(statements)-1].doing, err)
	}
	return nil
}

const commit = "COMMIT"
