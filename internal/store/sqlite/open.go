// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"synchronizer"
	"synchronizer/internal/store/walk"
)

var (
	_ synchronizer.Store       = (*DB)(nil)
	_ synchronizer.Reader      = (*DB)(nil)
	_ synchronizer.Inventory   = (*DB)(nil)
	_ synchronizer.Credentials = (*DB)(nil)
	_ synchronizer.Feed        = (*DB)(nil)
	_ synchronizer.Sets        = (*DB)(nil)
	_ synchronizer.Events      = (*DB)(nil)
	_ synchronizer.Keeper      = (*DB)(nil)
	_ synchronizer.Remover     = (*DB)(nil)
	_ synchronizer.Inspector   = (*DB)(nil)
)

const (
	// pageSize is measured: against 4096 the file is a fifth smaller and inserts
	// are cheaper; updates cost more.
	pageSize = 16384
	// applicationID marks the file as ours ("Sync").
	applicationID = 0x53796e63
	// readers is how many queries run at a time; more wait.
	readers = 4
	// busyTimeout is how long one attempt waits for a foreign writer, such as
	// somebody's sqlite3 shell.
	busyTimeout = time.Second
)

// DB is one open database. All methods may be called at the same time; Update
// and the writing methods of Credentials take turns.
type DB struct {
	path  string
	lock  *os.File
	write *writer
	read  *sql.DB

	limits walk.Limits

	mu     sync.RWMutex // held for reading by every query
	closed bool
}

type settings struct {
	writerCacheKiB int
	feedLength     int64
	busyTimeout    time.Duration
	busyAttempts   int
	maxPages       int64
	limits         walk.Limits
	migrate        bool
	migrated       func(from, to int64)
}

// Option changes how a database is opened.
type Option func(*settings)

// WithFeedLength sets how many of the latest changes of each account are kept in
// the change feed (1,000,000 by default).
func WithFeedLength(changes int64) Option {
	return func(s *settings) { s.feedLength = max(changes, 1) }
}

// WithMaxPages bounds the database file to so many pages of 16 KiB; a
// transaction that needs more fails with ErrFull. 0 is no bound.
func WithMaxPages(pages int64) Option {
	return func(s *settings) { s.maxPages = pages }
}

// WithoutMigration lets Open fail with ErrNotMigrated where it would have changed
// the schema.
func WithoutMigration() Option {
	return func(s *settings) { s.migrate = false }
}

// Open opens the database file at path, making it (mode 0600) and its folder
// (mode 0700) if they are missing, and migrates its schema. Errors name the file;
// they wrap ErrInUse, ErrDamaged, ErrFull, ErrNotMigrated or
// synchronizer.ErrSchemaTooNew where one of these is the reason.
func Open(ctx context.Context, path string, opts ...Option) (_ *DB, err error) {
	s := settings{
		writerCacheKiB: 8 << 10, feedLength: 1_000_000, busyTimeout: busyTimeout, busyAttempts: 10,
		limits: walk.DefaultLimits, migrate: true, migrated: func(int64, int64) {},
	}
	for _, opt := range opts {
		opt(&s)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("opening the database %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(abs), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the database %s: %w", abs, err)
	}
	lock, err := acquireLock(abs)
	if err != nil {
		return nil, fmt.Errorf("opening the database %s: %w", abs, err)
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	if err := prepareFile(ctx, abs); err != nil {
		return nil, err
	}
	write, err := openWriter(ctx, abs, s)
	if err != nil {
		return nil, err
	}
	read, err := sql.Open("sqlite", dsn(abs, s.busyTimeout, "query_only(1)", "cache_size(-2048)"))
	if err != nil {
		return nil, errors.Join(failure("opening the database", abs, err), write.close())
	}
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	read.SetConnMaxIdleTime(time.Minute)
	return &DB{path: abs, lock: lock, write: write, read: read, limits: s.limits}, nil
}

// Path is the absolute name of the database file.
func (db *DB) Path() string { return db.path }

// Close waits for running queries and transactions, writes the WAL back into
// the file and gives the lock back. Further calls return synchronizer.ErrClosed.
func (db *DB) Close() error {
	db.write.turn <- struct{}{} // kept: nobody writes after this
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		<-db.write.turn
		return nil
	}
	db.closed = true
	close(db.write.closed)
	<-db.write.turn
	err := errors.Join(db.read.Close(), db.write.close(), db.lock.Close())
	if err != nil {
		return db.failure("closing the database", err)
	}
	return nil
}

// dsn names the file for the driver, with what every connection needs.
func dsn(path string, busy time.Duration, pragmas ...string) string {
	pragmas = append([]string{
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
		"synchronous(FULL)",
		"temp_store(MEMORY)",
		"journal_size_limit(67108864)",
	}, pragmas...)
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	return u.String()
}

// prepareFile makes a new file with the page size, which can only be chosen
// before WAL is switched on, and refuses the database of another program.
func prepareFile(ctx context.Context, path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	info, err := file.Stat()
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	if info.IsDir() || !info.Mode().IsRegular() {
		return fmt.Errorf("opening the database: %s is not a file", path)
	}
	pool, err := sql.Open("sqlite", dsn(path, busyTimeout))
	if err != nil {
		return failure("opening the database", path, err)
	}
	defer func() { _ = pool.Close() }()
	pool.SetMaxOpenConns(1)

	var id, tables int64
	if err := pool.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return failure("reading the database", path, err)
	}
	if err := pool.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return failure("reading the database", path, err)
	}
	switch {
	case id == applicationID:
		return nil
	case id != 0 || tables > 0:
		return fmt.Errorf("opening the database: %w: %s belongs to another program", ErrDamaged, path)
	}
	for _, pragma := range []string{
		fmt.Sprintf("PRAGMA page_size = %d", pageSize),
		fmt.Sprintf("PRAGMA application_id = %d", applicationID), // the first write fixes the page size
		"PRAGMA journal_mode = WAL",
	} {
		if _, err := pool.ExecContext(ctx, pragma); err != nil {
			return failure("making the database", path, err)
		}
	}
	return nil
}
