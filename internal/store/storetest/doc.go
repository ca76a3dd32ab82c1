// SPDX-License-Identifier: Apache-2.0

// Package storetest is what every store has to pass: one suite for all contracts of
// the root package that are about it (see Backend), the queries of docs/store.md
// (Examples), and a benchmark (Bench).
//
// A store's own test calls Run with a function that opens an empty one, and
// Kill with what a child process needs to open the same database. Main belongs
// into the store's TestMain: the child process of Kill never returns from it.
package storetest
