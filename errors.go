// SPDX-License-Identifier: Apache-2.0

package synchronizer

import (
	"errors"
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
