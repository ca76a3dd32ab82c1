// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"synchronizer"
)

const (
	tailRecords = 512
	tailBytes   = 4 << 20
	forgetTail  = 5 * time.Minute
)

// tail reads In with a consumer of its own, in the broker's memory. It knows the
// number of the last record that it returned, so a consumer that is lost is
// replaced by one that begins behind it.
type tail struct {
	q     *Queue
	pull  *puller
	last  uint64    // in the stream
	made  time.Time // of the stream
	count uint64    // delivered by this consumer
	close func()

	mu   sync.Mutex
	name string // of the consumer on the broker
}

// Tail implements synchronizer.Queue.
func (q *Queue) Tail(ctx context.Context) (synchronizer.Tail, error) {
	ctx, done := q.join(ctx)
	defer done()
	if err := q.connected(ctx); err != nil {
		return nil, fmt.Errorf("starting tail: %w", err)
	}
	stream, err := q.js.Stream(ctx, q.streamName(synchronizer.In))
	if err != nil {
		return nil, fmt.Errorf("starting tail: %w", err)
	}
	t := &tail{q: q, last: stream.CachedInfo().State.LastSeq, made: stream.CachedInfo().Created}
	t.pull = newPuller(q.read)
	t.close = q.addReader(t.pull, func() {
		t.pull.close()
		if !q.read.IsConnected() {
			return // the broker forgets the consumer by itself
		}
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout) // that of the queue has ended
		defer cancel()
		t.remove(ctx)
	})
	if err := t.attach(ctx); err != nil {
		t.close()
		return nil, fmt.Errorf("starting tail: %w", err)
	}
	return t, nil
}

func (t *tail) attach(ctx context.Context) error {
	t.remove(ctx)
	stream := t.q.streamName(synchronizer.In)
	info, err := t.q.js.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("reading stream: %w", err)
	}
	if now := info.CachedInfo(); now.State.LastSeq < t.last || !now.Created.Equal(t.made) {
		t.q.logger.Warn("stream was made anew: reading it from its beginning", "stream", stream)
		t.last, t.made = 0, now.Created
	}
	made, err := t.q.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       t.last + 1,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxWaiting:        8,
		InactiveThreshold: forgetTail,
		MemoryStorage:     true,
	})
	if err != nil {
		return fmt.Errorf("creating consumer: %w", err)
	}
	name := made.CachedInfo().Name
	t.mu.Lock()
	t.name = name
	t.mu.Unlock()
	t.count = 0
	return t.pull.aim(stream, name)
}

// remove leaves nothing behind on the broker; if that fails, the broker forgets
// the consumer by itself.
func (t *tail) remove(ctx context.Context) {
	t.mu.Lock()
	name := t.name
	t.name = ""
	t.mu.Unlock()
	if name != "" {
		_ = t.q.js.DeleteConsumer(ctx, t.q.streamName(synchronizer.In), name)
	}
}

// Next implements synchronizer.Tail.
func (t *tail) Next(ctx context.Context) ([]synchronizer.Record, error) {
	ctx, done := t.q.join(ctx)
	defer done()
	for {
		msgs, err := t.pull.take(ctx, tailRecords, tailBytes)
		var records []synchronizer.Record
		if len(msgs) > 0 {
			records, err = t.accept(msgs)
		}
		if len(records) > 0 {
			// An error is found again, or repaired, by the next call.
			return records, nil
		}
		if err != nil && !errors.Is(err, errLost) {
			return nil, fmt.Errorf("reading records: %w", err)
		}
		if err == nil {
			continue
		}
		if err := t.q.recover(ctx, err, t.attach); err != nil {
			return nil, err
		}
	}
}

// accept takes the messages that follow each other. What comes from a consumer
// that was replaced is passed over; a gap in the consumer's own numbers means
// that messages were lost on the way, and ends with errLost.
func (t *tail) accept(msgs []*natsgo.Msg) ([]synchronizer.Record, error) {
	records := make([]synchronizer.Record, 0, len(msgs))
	for _, m := range msgs {
		number, delivered, err := place(m)
		if err != nil {
			return records, err
		}
		if number <= t.last {
			continue
		}
		if delivered != t.count+1 {
			return records, errLost
		}
		if t.last > 0 && number > t.last+1 {
			t.q.logger.Warn("tail was too slow: records were removed before it read them",
				"stream", t.q.streamName(synchronizer.In), "records", number-t.last-1)
		}
		t.last, t.count = number, delivered
		records = append(records, record(m, "in", number))
	}
	return records, nil
}

// Close implements synchronizer.Tail.
func (t *tail) Close() error {
	t.close()
	return nil
}
