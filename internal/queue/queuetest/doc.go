// SPDX-License-Identifier: Apache-2.0

// Package queuetest is the contract of synchronizer.Queue as tests. Every broker
// runs it:
//
//	queuetest.Run(t, queuetest.Factory{Name: "kafka", New: func(t *testing.T) queuetest.Open { … }})
//
// Each test gets an empty queue of its own. What brokers may do differently is
// an option of the Factory; what a broker has not (a way in, a limit) is named with
// its reason instead of run. The names of scenarios are the rows of
// docs/queue-results.md, which `make queues` writes.
package queuetest
