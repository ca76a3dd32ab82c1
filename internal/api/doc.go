// SPDX-License-Identifier: Apache-2.0

// Package api is the HTTP API by which people and programs read the fleet, and
// the client of it that the command line uses.
//
// Every route but /healthz and /readyz needs "Authorization: Bearer <token>".
// A token may be bound to an account and a cluster; scope.go is the one place
// that narrows a query to them. Errors are application/problem+json (RFC 9457).
package api
