// SPDX-License-Identifier: Apache-2.0

// Package sqlite is the database in one file, for one process: the default
// store, with nothing to install.
//
// There is one connection that writes (WAL, synchronous=FULL, BEGIN IMMEDIATE)
// and a small pool that reads while it does. A file lock beside the database
// keeps a second process out, which is what makes it right to remember the ids
// of kinds and clusters in memory.
//
// A row's key is (kind, namespace, name), where a kind is a small number that
// stands for account, cluster, group, version and resource. So a question about
// objects is answered in two steps: which kinds may the caller see (scope, the
// only place where an account is compared), then a walk of the index in key
// order, kind after kind. No walk is longer than scanLimit rows: what cannot be
// found by an index ends with a short page and a token to go on with.
//
// Labels are found by a hash of key and value (equality and "in"). That a key
// exists, or that something is not the case, is checked on the rows of the walk:
// index rows for keys alone would make each insert about 40 % dearer.
package sqlite
