// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"synchronizer"
)

// side is one of the two ways to a broker that are compared: the adapter, and the
// broker's own library. Both are given the same records before the clock runs.
type side interface {
	// publish sends a range of the records and returns when the broker has
	// confirmed them. Several calls at once are safe.
	publish(ctx context.Context, from, to int) error
	// next waits for records; one goroutine calls it. Ack tells the broker that these, and all before, are
	// done, and returns when it knows.
	next(ctx context.Context) (n, bytes int, ack func(context.Context) error, err error)
	close(ctx context.Context) error
}

const (
	// readAtOnce and readBytes are what a reader takes at most, as the ingester does.
	readAtOnce, readBytes = 500, 8 << 20
	benchGroup            = "bench"
)

// adapter is the side of this project.
type adapter struct {
	queue    synchronizer.Queue
	consumer synchronizer.Consumer
	records  []synchronizer.Record
}

// newAdapter owns the queue.
func newAdapter(ctx context.Context, q synchronizer.Queue, records []synchronizer.Record) (*adapter, error) {
	c, err := q.Consume(ctx, benchGroup)
	if err != nil {
		return nil, errors.Join(err, q.Close(ctx))
	}
	return &adapter{queue: q, consumer: c, records: records}, nil
}

func (a *adapter) publish(ctx context.Context, from, to int) error {
	return a.queue.Publish(ctx, synchronizer.Out, a.records[from:to])
}

func (a *adapter) next(ctx context.Context) (n, bytes int, ack func(context.Context) error, err error) {
	batch, err := a.consumer.Next(ctx, readAtOnce, readBytes)
	if err != nil {
		return 0, 0, nil, err
	}
	for i := range batch.Records {
		bytes += len(batch.Records[i].Payload)
	}
	return len(batch.Records), bytes, batch.Ack, nil
}

func (a *adapter) close(ctx context.Context) error {
	return errors.Join(a.consumer.Close(), a.queue.Close(ctx))
}

// transfer is one measured run of a side.
type transfer struct {
	took     time.Duration
	repeated int // records that were read more than once
}

// transferLimit is how long a run may make no progress.
const transferLimit = time.Minute

// callsAtOnce is how many calls of publish the producer has open, as a server with
// a few clients does: with one, the broker would be idle at the end of each.
const callsAtOnce = 2

// carry publishes n records, batch after batch, and reads and acknowledges them at
// the same time. It counts from the first batch to the last acknowledgement.
func carry(ctx context.Context, s side, records []synchronizer.Record, n int, bar *Progress) (transfer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(transferLimit, func() { cancel(fmt.Errorf("no record came for %s", transferLimit)) })
	defer stalled.Stop()

	start := time.Now()
	published := make(chan error, callsAtOnce)
	var next atomic.Int64
	for range callsAtOnce {
		go func() {
			for {
				at := int(next.Add(batchRecords)) - batchRecords
				if at >= n {
					published <- nil
					return
				}
				from := at % recordSet
				if err := s.publish(ctx, from, from+min(batchRecords, n-at)); err != nil {
					err = fmt.Errorf("publishing: %w", err)
					cancel(err)
					published <- err
					return
				}
			}
		}()
	}
	got, bytes, err := 0, 0, error(nil)
	for got < n && err == nil {
		var count, size int
		var ack func(context.Context) error
		if count, size, ack, err = s.next(ctx); err == nil {
			err = ack(ctx)
		}
		got, bytes = got+count, bytes+size
		stalled.Reset(transferLimit)
		bar.Add(count)
	}
	took := time.Since(start)
	if err != nil {
		cancel(err)
	}
	for range callsAtOnce {
		err = errors.Join(<-published, err)
	}
	if err != nil {
		return transfer{}, errors.Join(err, context.Cause(ctx))
	}
	least := 0
	for i := range n {
		least += len(records[i%recordSet].Payload)
	}
	if bytes < least {
		return transfer{}, fmt.Errorf("%d bytes were read where %d were published", bytes, least)
	}
	return transfer{took: took, repeated: got - n}, nil
}
