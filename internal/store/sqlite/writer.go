// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/cenkalti/backoff/v5"

	"synchronizer"
)

// writer is the one connection that writes. Whoever has put a value into turn
// owns everything below it.
type writer struct {
	path     string
	settings settings
	turn     chan struct{} // capacity 1
	closed   chan struct{}

	pool       *sql.DB
	conn       *sql.Conn
	statements map[string]*sql.Stmt // prepared on conn, by their text
	committed  ids
	lastObject int64           // greatest id ever given to an object
	feed       map[int64]int64 // changes of an account since its feed was shortened
}

func openWriter(ctx context.Context, path string, s settings) (*writer, error) {
	pragmas := []string{"journal_mode(WAL)", "wal_autocheckpoint(1000)", fmt.Sprintf("cache_size(-%d)", s.writerCacheKiB)}
	if s.maxPages > 0 {
		pragmas = append(pragmas, fmt.Sprintf("max_page_count(%d)", s.maxPages))
	}
	pool, err := sql.Open("sqlite", dsn(path, s.busyTimeout, pragmas...))
	if err != nil {
		return nil, failure("opening the database", path, err)
	}
	pool.SetMaxOpenConns(1)
	w := &writer{
		path: path, settings: s, pool: pool,
		turn: make(chan struct{}, 1), closed: make(chan struct{}), feed: map[int64]int64{},
	}
	from, to, err := migrate(ctx, pool, path, s.migrate)
	if err == nil {
		s.migrated(from, to)
		err = w.connect(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// connect takes the connection and forgets what was known of an earlier one.
func (w *writer) connect(ctx context.Context) error {
	conn, err := w.pool.Conn(ctx)
	if err != nil {
		return failure("opening the database", w.path, err)
	}
	w.conn, w.statements, w.committed = conn, map[string]*sql.Stmt{}, newIDs()
	err = conn.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'objects'").Scan(&w.lastObject)
	if err != nil {
		return failure("reading the database", w.path, err)
	}
	return nil
}

func (w *writer) close() error {
	var errs []error
	for _, statement := range w.statements {
		errs = append(errs, statement.Close())
	}
	if w.conn != nil {
		if err := w.conn.Close(); !connectionLost(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, w.pool.Close())...)
}

// take waits for the writer's turn.
func (w *writer) take(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-w.closed:
		<-w.turn
		return fmt.Errorf("%w: the database %s", synchronizer.ErrClosed, w.path)
	default:
		return nil
	}
}

// run is Update: one transaction, again while a foreign connection is in the way.
func (w *writer) run(ctx context.Context, fn func(*tx) error) error {
	if err := w.take(ctx); err != nil {
		return err
	}
	defer func() { <-w.turn }()
	attempt := func() (struct{}, error) {
		err := w.once(ctx, fn)
		if err != nil && !busy(err) && !connectionLost(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}
	_, err := backoff.Retry(ctx, attempt, backoff.WithMaxTries(uint(w.settings.busyAttempts)), backoff.WithMaxElapsedTime(0))
	if permanent, ok := errors.AsType[*backoff.PermanentError](err); ok {
		err = permanent.Unwrap()
	}
	return err
}

// once runs fn in one transaction. It is rolled back on an error, when ctx ends
// and when fn does not return at all (a panic goes on to the caller).
func (w *writer) once(ctx context.Context, fn func(*tx) error) (err error) {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	t := &tx{writer: w, made: newIDs(), known: map[rowKey]knownRow{}}
	committed := false
	defer func() {
		t.writer = nil
		if !committed {
			// Not with ctx, which may have ended. SQLite may have rolled back by
			// itself (disk full), which this then reports as an error.
			_, _ = w.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	// From here on ctx has no say, so that its end never leaves it open whether
	// the transaction was committed.
	if err := t.finish(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := w.exec(context.WithoutCancel(ctx), "committing", "COMMIT"); err != nil {
		return err
	}
	committed = true
	w.committed.merge(t.made)
	if t.forget {
		w.committed = newIDs()
	}
	return nil
}

func (w *writer) begin(ctx context.Context) error {
	err := w.exec(ctx, "beginning a transaction", "BEGIN IMMEDIATE")
	if err != nil && connectionLost(err) {
		_ = w.conn.Close()
		if err := w.connect(ctx); err != nil {
			return err
		}
		err = w.exec(ctx, "beginning a transaction", "BEGIN IMMEDIATE")
	}
	return err
}

// prepared gives the statement of the text, which is one of few.
func (w *writer) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	if statement := w.statements[text]; statement != nil {
		return statement, nil
	}
	statement, err := w.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, failure("preparing a statement", w.path, err)
	}
	w.statements[text] = statement
	return statement, nil
}

func (w *writer) exec(ctx context.Context, doing, text string, args ...any) error {
	statement, err := w.prepared(ctx, text)
	if err != nil {
		return err
	}
	if _, err := statement.ExecContext(ctx, args...); err != nil {
		return failure(doing, w.path, contextError(ctx, err))
	}
	return nil
}

// query calls scan for each row of the result.
func (w *writer) query(ctx context.Context, doing, text string, args []any, scan func(*sql.Rows) error) error {
	statement, err := w.prepared(ctx, text)
	if err != nil {
		return err
	}
	rows, err := statement.QueryContext(ctx, args...)
	if err != nil {
		return failure(doing, w.path, contextError(ctx, err))
	}
	for err == nil && rows.Next() {
		err = scan(rows)
	}
	if err = errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return failure(doing, w.path, contextError(ctx, err))
	}
	return nil
}
