// SPDX-License-Identifier: Apache-2.0

// Package bench measures the system as people run it: a backend and a client,
// each a process of its own, on this machine, between an API server and the
// database. It is a command and nothing else imports it.
//
// Eight benchmarks: FirstSync (all objects of a cluster into an empty backend),
// Latency (from a change to its committed row), HotObject (one object that changes
// all the time), Idle (a client whose kinds do not change or do not exist),
// Reconcile (a comparison that finds nothing), Endpoint (alerts over HTTP), Apply
// (what the backend writes into the cluster; here it runs in this process) and Up
// (start and idle memory of the process that holds everything). Each gives a
// Report: the machine, the data, and figures with their goals.
//
// Queue and Relay measure a part alone, in turn with the least that could do its
// work: the broker's library, and before it a WebSocket, given the same bytes. Their
// brokers are started by the scripts that people use. Fleet measures what thousands of
// clients cost one server; package fleetclient is one of them.
//
// The API server is a stub that replays LIST pages from memory, so that the two
// cores are the system's, or a real one in which the benchmark makes its objects
// and removes them. The clock is that of the bench's process. What a process
// costs is what Linux says of it in /proc; which part of it costs is read from CPU
// profiles (Stages).
package bench
