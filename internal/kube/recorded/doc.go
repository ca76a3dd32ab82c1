// SPDX-License-Identifier: Apache-2.0

// Package recorded is a stub of a Kubernetes API server for benchmarks: it
// serves what a real one has answered, from memory, at nearly no cost, so that
// what is measured on the same cores is the client.
//
// Record asks a real API server for all objects of a kind and keeps the pages as
// they came. Load reads them, and Generate makes a Set of any size in the same
// form from a seed. A Server serves sets, each of a kind of its own: discovery
// (also aggregated), LIST in pages, GET, and WATCH, which is idle or plays changes at a given rate and remembers when
// each was sent.
package recorded
