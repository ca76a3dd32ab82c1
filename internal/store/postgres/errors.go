// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"synchronizer"
)

// Faults of the database that people can do something about. None of them says
// anything of the data: the same transaction succeeds when the cause is gone.
var (
	// ErrFull: the disk or the quota of the server is used up.
	ErrFull = errors.New("no space left for the database")
	// ErrAway: the server cannot be reached, or has ended the connection.
	ErrAway = errors.New("the database is away")
	// ErrNotMigrated: the schema is older than this program's, and nobody asked to
	// change it.
	ErrNotMigrated = errors.New("the database schema is older than this program")
)

// errRace: another transaction was quicker; the same again succeeds.
var errRace = errors.New("another transaction wrote the same")

// failure wraps err with what was being done and the database that it was done to.
// A fault of the data wraps synchronizer.ErrInvalid, of the database never.
func (db *DB) failure(doing string, err error) error { return failure(doing, db.name, err) }

func failure(doing, name string, err error) error {
	var kind error
	state := sqlState(err)
	switch {
	case state == "53100": // disk_full
		kind = ErrFull
	case state == "54001", state == "54000": // stack depth, program limit: of one value
		kind = synchronizer.ErrInvalid
	case strings.HasPrefix(state, "22"), strings.HasPrefix(state, "23"): // data, constraint
		kind = synchronizer.ErrInvalid
	case connectionLost(err):
		kind = ErrAway
	default:
		return fmt.Errorf("%s (%s): %w", doing, name, err)
	}
	return fmt.Errorf("%s (%s): %w: %w", doing, name, kind, err)
}

// sqlState is the server's code in err, or empty.
func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// again reports whether the same transaction may succeed at once.
func again(err error) bool {
	switch sqlState(err) {
	case "40001", "40P01", "55P03": // serialization, deadlock, lock not available
		return true
	}
	return errors.Is(err, errRace)
}

// connectionLost reports whether the connection has ended: by the network, by an
// administrator, or because the server starts or stops.
func connectionLost(err error) bool {
	switch state := sqlState(err); {
	case strings.HasPrefix(state, "08"), strings.HasPrefix(state, "57P"):
		return true
	case state != "":
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		err != nil && strings.Contains(err.Error(), "conn closed")
}

// contextError prefers the reason why ctx ended over what the driver made of it.
func contextError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
