// SPDX-License-Identifier: Apache-2.0

// Package queuetest is the contract of synchronizer.Queue as tests. Every broker
// runs it:
//
//	queuetest.Run(t, queuetest.Factory{New: func(t *testing.T) queuetest.Open { … }})
//
// Each test gets an empty broker of its own. What brokers may do differently is
// an option of the Factory.
package queuetest
