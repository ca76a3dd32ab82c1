// SPDX-License-Identifier: Apache-2.0

// Package postgres is the database on a PostgreSQL server (14 or newer), which any
// number of processes may write to and read from at the same time.
//
// A transaction locks what it changes in one order: its clusters (shared), its rows
// by key, the numbers of kinds, and at last the account's position in the change
// feed. That last lock is held from the moment a position is given until the
// commit, and both go to the server in one message: so positions of one account are
// committed in their order, without gaps, and whoever reads the feed skips nothing.
//
// Numbers of kinds and clusters are not remembered between transactions, since
// another process may delete a cluster: they cost one statement per transaction.
//
// As in the other store, an account is compared in one place only (scope.go), and
// everything that is read is read by the numbers of the kinds that it lets through.
package postgres
