// SPDX-License-Identifier: Apache-2.0

// Package scenario tests the whole system against a real API server: a cluster
// in which objects come, change and go, a client that watches it, a backend that
// keeps it, and everything that can break in between.
//
// Whatever happens on the way, every test ends with the same claim: what the
// store has is what the cluster has, as sets of (key, uid, checksum), with not
// one object more. The cluster is listed afresh for that, and the store is read
// through its API.
//
// Client and backend are those of internal/app, in this process with a registry
// each, or child processes of the built program where they have to be killed.
// Tests share an API server, in which each has a namespace and a cluster name of
// its own; those that kill or compact it have their own.
package scenario
