// SPDX-License-Identifier: Apache-2.0

package synchronizer

import "context"

// Direction is one of the queue's topics.
type Direction uint8

// The directions. DeadLetter takes records of Out that can never be handled.
const (
	Out        Direction = iota + 1 // clusters to backend
	In                              // backend to clusters
	DeadLetter                      // set aside, named
)

// String is "out", "in" or "dead-letter".
func (d Direction) String() string {
	switch d {
	case Out:
		return "out"
	case In:
		return "in"
	case DeadLetter:
		return "dead-letter"
	}
	return "unknown"
}

// Property is one name and value beside a record's payload.
type Property struct{ Name, Value string }

// Record is one message on a queue. Package queue translates between records
// and messages; an adapter never looks inside.
type Record struct {
	// Key is the partition key ("account/cluster"): order is kept per key. Empty
	// for records about no cluster.
	Key string
	// Properties are few (about 15), in no order; names are unique.
	Properties []Property
	Payload    []byte
	// Partition and Position say where the broker keeps a consumed record; an
	// adapter fills them in Next, Publish ignores them. They order records that
	// carry no stamp (those of a server in the field).
	Partition string
	Position  uint64
}

// Property returns the value of the named property, or "".
func (r *Record) Property(name string) string {
	for i := range r.Properties {
		if r.Properties[i].Name == name {
			return r.Properties[i].Value
		}
	}
	return ""
}

// Size is the number of bytes that the record holds, near enough for a budget.
func (r *Record) Size() int {
	n := 64 + len(r.Key) + len(r.Payload)
	for i := range r.Properties {
		n += len(r.Properties[i].Name) + len(r.Properties[i].Value)
	}
	return n
}

// Queue is the broker between servers and ingesters. All methods may be called
// at the same time. When the broker is away, adapters reconnect for ever and
// calls wait until ctx ends.
type Queue interface {
	// Publish sends records to a direction and returns nil when the broker has
	// confirmed every one of them by its own rule (documented per adapter: what
	// survives what). Per key the order is kept, also across retries and calls that
	// follow each other. It is pipelined: never one round trip per record. After an
	// error any of the records may have been accepted; publishing all of them again
	// is right, since everything behind the queue is idempotent. Records above the
	// broker's limit fail alone, after the others were confirmed: a *TooLargeError
	// says which they are. Payloads are not kept after the return.
	Publish(ctx context.Context, to Direction, records []Record) error

	// Tail subscribes to In: every subscriber sees every record that is published
	// after Tail has returned. It leaves nothing behind on the broker.
	Tail(ctx context.Context) (Tail, error)

	// Consume joins the group that shares the work of Out. Each key goes to one
	// member at a time and in order.
	Consume(ctx context.Context, group string) (Consumer, error)

	// Close flushes (at most until ctx ends), then closes; blocked calls return
	// ErrClosed.
	Close(ctx context.Context) error
}

// Reachable is what a Queue may be in addition: one that knows whether its broker
// can do its work now.
type Reachable interface {
	// Reachable asks the broker over the connections that the queue works with, and
	// returns nil when it has answered. It is cheap and ends with ctx. The error names
	// the broker and what is wrong with it, and no secret; one that wraps ErrClosed is
	// for good: the queue was closed, or cannot reconnect any more.
	Reachable(ctx context.Context) error
}

// Tail is one subscription of a server to In. One goroutine uses it.
type Tail interface {
	// Next waits for at least one record and returns what has arrived, in order per
	// key. After an outage of the broker it goes on behind the last record that it
	// returned. The caller owns the records.
	Next(ctx context.Context) ([]Record, error)
	Close() error
}

// Consumer is one member of a group on Out. One goroutine uses it.
type Consumer interface {
	// Next waits for at least one record and returns what has arrived, without
	// linger, at most max records and about maxBytes (one record at least). It may
	// be called before the batch before was acknowledged, so that fetching and
	// working overlap; the caller bounds how many batches it holds.
	Next(ctx context.Context, max, maxBytes int) (Batch, error)
	Close() error
}

// Batch is what a consumer works on. The caller owns the records.
type Batch struct {
	Records []Record
	// Ack tells the broker that every record of the batch, and of all batches
	// before it, is final. Called at most once per batch, after the transaction is
	// committed and all that follows from it is confirmed. What is not acknowledged
	// comes again, after a crash too, and to another member if this one is gone.
	Ack func(ctx context.Context) error
}
