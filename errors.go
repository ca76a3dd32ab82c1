// SPDX-License-Identifier: Apache-2.0

package synchronizer

import (
	"errors"
	"strconv"
	"time"
)

// Sentinels that drive behaviour. Everything else is an error to be wrapped
// with what was being done, logged or returned.
var (
	// ErrInvalid: the input can never be accepted; trying again is pointless.
	ErrInvalid = errors.New("invalid")

	// ErrNotFound: the object (or cluster, or key) does not exist.
	ErrNotFound = errors.New("not found")

	// ErrGone: the API server no longer has the requested resourceVersion or
	// continue token (HTTP 410). List again from the beginning.
	ErrGone = errors.New("resource version is gone")

	// ErrKindNotServed: the API server does not serve the kind (404 on its path).
	ErrKindNotServed = errors.New("kind is not served")

	// ErrForbidden: RBAC does not allow it (401 or 403).
	ErrForbidden = errors.New("forbidden")

	// ErrUnauthorized: the peer's credentials were refused. Final at the first
	// connect, retried while reconnecting.
	ErrUnauthorized = errors.New("unauthorized")

	// ErrUnsupportedVersion: the peer refused our version (HTTP 424). Final at
	// the first connect.
	ErrUnsupportedVersion = errors.New("version not supported by the server")

	// ErrClosed: the thing was closed by this side.
	ErrClosed = errors.New("closed")

	// ErrDisconnected: the other side or the network ended the connection;
	// connect again.
	ErrDisconnected = errors.New("disconnected")

	// ErrTooLarge: one message or record is above a configured limit. Only that
	// one is affected.
	ErrTooLarge = errors.New("too large")

	// ErrSchemaTooNew: the database was written by a newer version; refuse to start.
	ErrSchemaTooNew = errors.New("database schema is newer than this program")
)

// RetryAfterError is an error of a peer that asked for a pause (HTTP 429 or 503
// with Retry-After).
type RetryAfterError struct {
	After time.Duration
	Err   error
}

func (e *RetryAfterError) Error() string {
	return e.Err.Error() + " (retry after " + e.After.String() + ")"
}

// Unwrap gives the cause.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// TooLargeError says which of several records were not taken, because each is above a
// limit; all others were. The zero value is of none.
type TooLargeError struct {
	At  []int // their places in the call, in order
	Err error // about the first; wraps ErrTooLarge
}

func (e *TooLargeError) Error() string {
	if len(e.At) < 2 {
		return e.Err.Error()
	}
	return e.Err.Error() + " (and " + strconv.Itoa(len(e.At)-1) + " more)"
}

// Unwrap gives the cause.
func (e *TooLargeError) Unwrap() error { return e.Err }

// Add adds the record at a place behind those that are known.
func (e *TooLargeError) Add(at int, err error) {
	if e.Err == nil {
		e.Err = err
	}
	e.At = append(e.At, at)
}

// Take adds what is known of a part of the call that began at first, as far as the
// part's record upTo. What comes behind is tried again, and found again.
func (e *TooLargeError) Take(part *TooLargeError, first, upTo int) {
	for _, at := range part.At {
		if at < upTo {
			e.Add(first+at, part.Err)
		}
	}
}

// OrNil is e as an error, nil if there is no such record.
func (e *TooLargeError) OrNil() error {
	if len(e.At) == 0 {
		return nil
	}
	return e
}
