// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"testing"
	"time"

	"synchronizer"
)

// Open opens the queue; after Close it can be opened again, with what was kept.
// Where the broker allows it, Open may be called while another is open: two
// processes of the same broker.
type Open func(t *testing.T) synchronizer.Queue

// Factory makes brokers, and says what is special about them.
type Factory struct {
	// Name is the column of the results: "embedded", "nats", "kafka" or "pulsar".
	Name string
	// Version is the product and version that was run, for the results.
	Version string
	// New makes an empty queue (topics of its own where the broker is shared, with
	// at least four partitions where members share by partition), which ends with
	// the test.
	New func(t *testing.T) Open
	// MaxPayload is the size above which a record must be refused, 0 if there is
	// no limit that a test can reach.
	MaxPayload int
	// Large is the size of the large record; 0 means 20 MiB.
	Large int
	// EachKey is how many records each of 100 keys gets at once; 0 means 1,000, or 200
	// with the race detector.
	EachKey int
	// OneMember says that a second member of a group is refused, and that the
	// queue has one process at a time.
	OneMember bool
	// Rewinds says that somebody who joins in the moment in which the last member
	// leaves may be handed later records of a key before the broker begins anew behind
	// what is acknowledged.
	Rewinds bool
	// HoldsAll says that the broker is a fake, which keeps records in the memory
	// of the test.
	HoldsAll bool
	// Patience bounds every wait for something that must come; 0 means 20 s.
	Patience time.Duration

	// Broker starts a broker of its own, which a test disturbs. Nil: the broker
	// lives in the process.
	Broker func(t *testing.T) Broker
	// Ways are all ways in: without and with TLS, each authentication. Empty: the
	// broker lives in the process.
	Ways []Way
	// Absent opens the queue at an address where nobody listens, with a few short
	// retries, and returns the error. Nil: the broker lives in the process.
	Absent func(t *testing.T) error
	// MissingTopic opens the queue where topics are required and missing, and
	// returns the error. Nil: the broker has no such requirement.
	MissingTopic func(t *testing.T) error
	// Leftovers names what readers left on the broker of the last New: groups,
	// consumers, subscriptions; those of the suite's own groups (Group and names
	// that begin with it) are none. Nil: it cannot be asked.
	Leftovers func(t *testing.T) []string
	// Chunks is given where package chunk splits what the broker cannot carry.
	Chunks *ChunkFactory
	// Limited is New for a broker whose own limit is 1 MiB, where the adapter splits
	// by itself. Nil: Chunks is given, or there is no such limit.
	Limited func(t *testing.T) Open
}

// Broker is one that a test may disturb. It ends with the test.
type Broker interface {
	// Open is one more process on it.
	Open(t *testing.T) synchronizer.Queue
	// Stop ends it in order, as SIGTERM does.
	Stop(t *testing.T)
	// Kill ends it as SIGKILL does.
	Kill(t *testing.T)
	// Start starts it again with the same data and address, and returns when it
	// is ready.
	Start(t *testing.T)
}

// Way is one way in.
type Way struct {
	// Name is that of the protocol or mechanism: "plain", "TLS", "mTLS", "PLAIN",
	// "SCRAM-SHA-256", "token".
	Name string
	// Open uses the right credentials, on an empty queue; a record must go
	// through. The test closes the queue.
	Open func(t *testing.T) (synchronizer.Queue, error)
	// Wrong opens with a wrong credential (or an authority that did not sign the
	// broker's certificate) and returns the error. Nil where there is none.
	Wrong func(t *testing.T) error
	// Secrets must not stand in that error.
	Secrets []string
}

// ChunkFactory opens the bare queue, below package chunk, with a small limit: the
// suite puts package chunk around it, or not.
type ChunkFactory struct {
	// New is that of Factory, for a broker (or topics) that carries MaxRecord.
	New func(t *testing.T) Open
	// MaxRecord is the limit of one record in bytes, as chunk.Options takes it;
	// about 1 MiB.
	MaxRecord int
}

// Group is the consumers' group of the suite.
const Group = group
