// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	driversqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"synchronizer"
)

// Faults of the database that people can do something about. None of them says
// anything of the data: the same transaction succeeds when the cause is gone.
var (
	// ErrFull: the disk, the quota or the size limit of the database is used up.
	ErrFull = errors.New("no space left for the database")
	// ErrDamaged: the file is no SQLite database, or parts of it are unreadable.
	ErrDamaged = errors.New("not a database of Synchronizer, or damaged")
	// ErrNotMigrated: the schema is older than this program's, and nobody asked to
	// change it.
	ErrNotMigrated = errors.New("the database schema is older than this program")
)

// failure wraps err with what was being done and the file that it was done to.
// A fault of the data wraps synchronizer.ErrInvalid, of the database never.
func (db *DB) failure(doing string, err error) error { return failure(doing, db.path, err) }

func failure(doing, path string, err error) error {
	var kind error
	switch code(err) {
	case sqlite3.SQLITE_FULL:
		kind = ErrFull
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		kind = ErrDamaged
	case sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH:
		kind = synchronizer.ErrInvalid
	default:
		return fmt.Errorf("%s (%s): %w", doing, path, err)
	}
	return fmt.Errorf("%s (%s): %w: %w", doing, path, kind, err)
}

// code is the primary result code of SQLite in err, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*driversqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// busy reports whether another connection was in the way.
func busy(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED
}

// connectionLost reports whether the connection can never be used again.
func connectionLost(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
}

// contextError prefers the reason why ctx ended over what SQLite made of it.
func contextError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
