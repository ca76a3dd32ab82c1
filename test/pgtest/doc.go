// SPDX-License-Identifier: Apache-2.0

// Package pgtest starts a real PostgreSQL for tests, from the binaries of the
// system's package (Debian: postgresql), as a user other than root.
//
// Most tests take an empty database of the server that all tests of a test
// binary share (Database). A test that stops, kills or fills a server starts its
// own (Start). Servers listen on a socket file only, so no port is taken; they end
// with the test binary, however it ends.
//
// fsync is off: a test may kill the server, not the machine.
package pgtest
