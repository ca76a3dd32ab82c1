// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"synchronizer"
)

const (
	// mostUnacknowledged only protects the broker's memory; callers bound what
	// they hold by bytes.
	mostUnacknowledged = 1 << 17
	// A group that nobody has joined for so long is forgotten, so that it does not
	// keep records for ever. If it comes back it starts with what is there.
	forgetGroupAfter = 7 * 24 * time.Hour
	lostPause        = 250 * time.Millisecond
	ackTimeout       = 15 * time.Second
)

// consumer is the one member of a group on a stream with one partition. All
// records go to it, so the acknowledgement of one stands for all before it.
type consumer struct {
	q        *Queue
	group    string
	pull     *puller
	highest  uint64 // of what was returned
	ackReply string // acknowledges up to highest
	close    func()
	// epoch counts the deliveries begun anew. An acknowledgement of an earlier one
	// carries numbers that would confuse the broker, so it is not sent.
	epoch  atomic.Uint64
	closed atomic.Bool
}

// Consume implements synchronizer.Queue. On the embedded broker the group has one
// member: a second call before Close of the first is refused. What the member
// before did not acknowledge comes first.
func (q *Queue) Consume(ctx context.Context, group string) (synchronizer.Consumer, error) {
	ctx, done := q.join(ctx)
	defer done()
	if q.partitions > 1 {
		if err := q.connected(ctx); err != nil {
			return nil, fmt.Errorf("joining group %q: %w", group, err)
		}
		return q.newMember(ctx, group)
	}
	leave, err := q.joinGroup(group)
	if err != nil {
		return nil, err
	}
	c := &consumer{q: q, group: group}
	c.pull = newPuller(q.read)
	c.close = q.addReader(c.pull, func() {
		c.pull.close()
		leave()
	})
	if err := c.attach(ctx); err != nil {
		c.close()
		return nil, fmt.Errorf("joining group %q: %w", group, err)
	}
	return c, nil
}

func (q *Queue) joinGroup(group string) (leave func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil, fmt.Errorf("joining group %q: %w", group, synchronizer.ErrClosed)
	case group == "":
		return nil, fmt.Errorf("%w: group has no name", synchronizer.ErrInvalid)
	case q.groups[group]:
		return nil, fmt.Errorf("%w: group %q has a member already; the embedded queue allows one", synchronizer.ErrInvalid, group)
	}
	q.groups[group] = true
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.groups, group)
	}, nil
}

// attach makes the durable consumer and lets it begin behind the last
// acknowledgement; without that the broker would send new records first and the
// others only after AckWait.
func (c *consumer) attach(ctx context.Context) error {
	stream, name := c.q.streamName(synchronizer.Out), token(c.group)
	made, err := c.q.js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable:           name,
		DeliverPolicy:     jetstream.DeliverAllPolicy,
		AckPolicy:         jetstream.AckAllPolicy,
		AckWait:           c.q.ackWait,
		MaxDeliver:        -1,
		MaxAckPending:     mostUnacknowledged,
		MaxWaiting:        8,
		InactiveThreshold: forgetGroupAfter,
	})
	if err != nil {
		return fmt.Errorf("creating consumer: %w", err)
	}
	info := made.CachedInfo()
	if info.Delivered.Stream > info.AckFloor.Stream {
		s, err := c.q.js.Stream(ctx, stream)
		if err != nil {
			return fmt.Errorf("reading stream: %w", err)
		}
		if _, err := s.ResetConsumer(ctx, name); err != nil {
			return fmt.Errorf("resetting consumer: %w", err)
		}
	}
	c.epoch.Add(1)
	c.highest, c.ackReply = 0, ""
	return c.pull.aim(stream, name)
}

// Next implements synchronizer.Consumer. It fetches one batch ahead.
func (c *consumer) Next(ctx context.Context, most, maxBytes int) (synchronizer.Batch, error) {
	ctx, done := c.q.join(ctx)
	defer done()
	for {
		msgs, err := c.pull.take(ctx, most, maxBytes)
		if len(msgs) > 0 {
			return c.batch(msgs)
		}
		if !errors.Is(err, errLost) {
			return synchronizer.Batch{}, fmt.Errorf("reading records: %w", err)
		}
		if err := c.q.recover(ctx, err, c.attach); err != nil {
			return synchronizer.Batch{}, err
		}
	}
}

// recover calls attach until it succeeds or ctx ends.
func (q *Queue) recover(ctx context.Context, cause error, attach func(context.Context) error) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("reading records: %w (%w)", context.Cause(ctx), cause)
		case <-time.After(lostPause):
		}
		if cause = attach(ctx); cause == nil {
			return nil
		}
		if errors.Is(cause, jetstream.ErrStreamNotFound) {
			if err := q.ensureStreams(ctx, q.js); err != nil {
				cause = err
			}
		}
	}
}

func (c *consumer) batch(msgs []*natsgo.Msg) (synchronizer.Batch, error) {
	records := make([]synchronizer.Record, len(msgs))
	for i, m := range msgs {
		number, _, err := place(m)
		if err != nil {
			return synchronizer.Batch{}, err
		}
		if number >= c.highest { // again: the newer delivery counts
			c.highest, c.ackReply = number, m.Reply
		}
		records[i] = record(m, "out-0", number)
	}
	reply, epoch := c.ackReply, c.epoch.Load()
	return synchronizer.Batch{Records: records, Ack: func(ctx context.Context) error {
		if c.q.ctx.Err() == nil && c.epoch.Load() != epoch {
			if c.closed.Load() {
				return fmt.Errorf("acknowledging: delivery has begun anew, the records come again: %w", synchronizer.ErrClosed)
			}
			// The broker was lost in between. Nothing that the caller can do would
			// help: the records come again by themselves.
			return nil
		}
		return c.q.acknowledge(ctx, reply, ackTimeout)
	}}, nil
}

// acknowledge asks for a reply, so that the broker has it when it returns.
func (q *Queue) acknowledge(ctx context.Context, reply string, limit time.Duration) error {
	ctx, done := q.join(ctx)
	defer done()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if _, err := q.read.RequestWithContext(limited, reply, []byte("+ACK")); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("acknowledging: %w", err)
	}
	q.trimmer.poke()
	return nil
}

// Close implements synchronizer.Consumer. Batches that were returned cannot be
// acknowledged any more: they belong to the next member.
func (c *consumer) Close() error {
	c.closed.Store(true)
	c.epoch.Add(1)
	c.close()
	return nil
}
