// SPDX-License-Identifier: Apache-2.0

package chunk

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"synchronizer"
)

// Defaults of Options.
const (
	DefaultMaxSetBytes = 64<<20 + 64<<10 // the largest message, and its properties
	DefaultMaxBytes    = 128 << 20
	DefaultExpire      = 2 * time.Minute
)

// Options say what the broker carries and what a reader may hold.
type Options struct {
	// MaxRecord is how many bytes the broker carries in one record, properties
	// included. It must be set.
	MaxRecord int
	// Size is how many bytes a record takes on the broker, to be held against
	// MaxRecord. Nil: key, payload, names and values, and 16 bytes for each
	// property.
	Size func(*synchronizer.Record) int
	// Allowed says whether whoever reads a direction can join. Where it is false
	// a large record goes to the broker as it is, which refuses it with
	// ErrTooLarge. Nil: always. It must not block.
	Allowed func(to synchronizer.Direction) bool
	// MaxSetBytes is the largest payload of a record, 0 means DefaultMaxSetBytes.
	MaxSetBytes int
	// MaxBytes bounds what all readers of the queue hold of incomplete sets
	// together. A set that does not fit is dropped. 0 means DefaultMaxBytes.
	MaxBytes int64
	// Expire is how long an incomplete set is kept after its newest chunk; as long
	// it may hold up acknowledgements. 0 means DefaultExpire.
	Expire time.Duration
	// Drop counts what could not be joined. Nil: it is only logged.
	Drop   synchronizer.DropFunc
	Logger *slog.Logger // nil means slog.Default()
}

// Owner is a synchronizer.Consumer that knows which partitions are its own. Of a
// partition that went to another member the leftovers are forgotten at once and
// are no loss: the other member reads the whole set.
type Owner interface {
	// Owns reports whether records of the partition (Record.Partition) still come
	// to this member. It may be called while Next runs, and must not block.
	Owns(partition string) bool
}

// Queue splits and joins around another one.
type Queue struct {
	synchronizer.Queue // the one that is carried over
	options
}

type options struct {
	Options
	budget *semaphore.Weighted
}

// New puts the layer around q, which it owns from here on.
func New(q synchronizer.Queue, o Options) synchronizer.Queue {
	if o.Size == nil {
		o.Size = sizeOf
	}
	if o.Allowed == nil {
		o.Allowed = func(synchronizer.Direction) bool { return true }
	}
	if o.MaxSetBytes == 0 {
		o.MaxSetBytes = DefaultMaxSetBytes
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Expire == 0 {
		o.Expire = DefaultExpire
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Drop == nil {
		logger := o.Logger
		o.Drop = func(reason synchronizer.DropReason, what string) {
			logger.Warn("dropped", "reason", reason, "what", what)
		}
	}
	return &Queue{q, options{o, semaphore.NewWeighted(o.MaxBytes)}}
}

// Unwrap returns the queue below.
func (q *Queue) Unwrap() synchronizer.Queue { return q.Queue }

// Publish implements synchronizer.Queue.
func (q *Queue) Publish(ctx context.Context, to synchronizer.Direction, records []synchronizer.Record) error {
	first := -1
	for i := range records {
		if q.Size(&records[i]) > q.MaxRecord {
			first = i
			break
		}
	}
	if first < 0 || !q.Allowed(to) {
		return q.Queue.Publish(ctx, to, records)
	}
	out := append(make([]synchronizer.Record, 0, len(records)+16), records[:first]...)
	var tooLarge synchronizer.TooLargeError
	ends := make([]int, first, len(records)) // where what became of each record ends in out
	for i := range ends {
		ends[i] = i + 1
	}
	for i := first; i < len(records); i++ {
		r := &records[i]
		if q.Size(r) <= q.MaxRecord {
			out = append(out, *r)
		} else if chunks, err := q.split(r); err != nil {
			tooLarge.Add(i, err)
		} else {
			out = append(out, chunks...)
		}
		ends = append(ends, len(out))
	}
	err := q.Queue.Publish(ctx, to, out)
	refused, ok := errors.AsType[*synchronizer.TooLargeError](err)
	if err != nil && !ok {
		return err // weighs more: those records have to be published again
	}
	if ok {
		for _, at := range refused.At {
			whole, _ := slices.BinarySearch(ends, at+1)
			tooLarge.Add(whole, refused.Err)
		}
		slices.Sort(tooLarge.At)
		tooLarge.At = slices.Compact(tooLarge.At)
	}
	return tooLarge.OrNil()
}

// Tail implements synchronizer.Queue.
func (q *Queue) Tail(ctx context.Context) (synchronizer.Tail, error) {
	inner, err := q.Queue.Tail(ctx)
	if err != nil {
		return nil, err
	}
	return &tail{Tail: inner, joiner: newJoiner(&q.options, true)}, nil
}

// Consume implements synchronizer.Queue.
func (q *Queue) Consume(ctx context.Context, group string) (synchronizer.Consumer, error) {
	inner, err := q.Queue.Consume(ctx, group)
	if err != nil {
		return nil, err
	}
	c := &consumer{Consumer: inner, joiner: newJoiner(&q.options, false), acking: make(chan struct{}, 1)}
	if owner, ok := inner.(Owner); ok {
		c.joiner.owns = owner.Owns
	}
	return c, nil
}
