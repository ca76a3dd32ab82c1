// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"fmt"
	"sync"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"

	"synchronizer"
)

const (
	// fetchAhead bounds what the library fetches ahead of the buffer. It counts
	// messages, not bytes, so there are few; a batch of the producer may exceed it.
	fetchAhead = 32
	// mostUnseen bounds what is acknowledged together of records for others.
	mostUnseen = 500
)

// consumer is one member of a group. A goroutine of its own subscribes, reads into
// the buffer, and subscribes anew when the connection is lost; the broker then
// delivers again what is not acknowledged.
type consumer struct {
	q      *Queue
	group  string
	buffer *buffer
	ctx    context.Context // ends with Close
	end    context.CancelFunc
	task   sync.WaitGroup

	mu      sync.Mutex // after the lock of the buffer
	current *held      // nil between two
	open    []batch    // returned by Next and not acknowledged, oldest first
	last    uint64
	// epoch counts the subscriptions. Ids of an earlier one mean nothing to a later.
	epoch uint64
}

// subscription is what is used of the library's consumer.
type subscription interface {
	Chan() <-chan client.ConsumerMessage
	AckIDList(ids []client.MessageID) error
	GetLastMessageIDs() ([]client.TopicMessageID, error)
	Close()
}

// Consume implements synchronizer.Queue. The group is the name of the
// subscription; empty means the one of the configuration.
func (q *Queue) Consume(ctx context.Context, group string) (synchronizer.Consumer, error) {
	if group == "" {
		group = q.config.Subscription
	}
	if group == fieldSubscription {
		return nil, fmt.Errorf("%w: subscription %q belongs to the ingester in the field: give another one", synchronizer.ErrInvalid, group)
	}
	ctx, done, err := q.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("joining group %q: %w", group, err)
	}
	defer done()
	c := &consumer{q: q, group: group, buffer: newBuffer()}
	c.ctx, c.end = context.WithCancel(q.ctx)
	s, err := insist(ctx, func() (*held, error) { return c.subscribe(ctx) })
	if err != nil {
		c.end()
		return nil, fmt.Errorf("joining group %q: %w", group, err)
	}
	if err := q.addReader(c); err != nil {
		c.end()
		s.Close()
		return nil, fmt.Errorf("joining group %q: %w", group, err)
	}
	c.task.Go(func() { c.run(s) })
	return c, nil
}

func (c *consumer) subscribe(ctx context.Context) (*held, error) {
	w := newWatched(c.ctx)
	names, err := c.q.partitions(ctx, synchronizer.Out)
	if err != nil {
		w.leave()
		return nil, err
	}
	w.partitions = len(names)
	sub, err := open(ctx, c.q, w, func() (subscription, error) {
		return c.q.subscribe(c.group, w.policy)
	}, func(s subscription) error {
		_, err := s.GetLastMessageIDs()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("subscribing: %w", err)
	}
	return newHeld(sub, w), nil
}

// run owns the subscription.
func (c *consumer) run(s *held) {
	for s != nil {
		c.mu.Lock()
		c.current = s
		c.mu.Unlock()

		left := s
		c.task.Go(func() { c.discover(left.w) })
		c.read(s)
		s.w.leave()
		c.buffer.clear(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.epoch++
			c.open, c.current = nil, nil
		})
		c.task.Go(left.leave) // it may have to wait for a broker that is silent
		s = c.again()
	}
}

// discover looks for partitions that appear later. The library's own search misses
// some, so the subscription ends, and the next one has them all.
func (c *consumer) discover(w *watched) {
	ticker := time.NewTicker(c.q.config.partitionsNew)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-w.ctx.Done():
			return
		}
		names, err := c.q.partitions(w.ctx, synchronizer.Out)
		if err == nil && len(names) != w.partitions {
			w.lost()
			return
		}
	}
}

// again subscribes until it succeeds, or the consumer ends.
func (c *consumer) again() *held {
	p := pauses{backOff{c.q.config.RedeliveryDelay}}
	for p.wait(c.ctx) {
		s, err := c.subscribe(c.ctx)
		if err == nil {
			return s
		}
		if c.ctx.Err() == nil {
			c.q.config.Logger.Warn("queue: cannot read, trying again", "topic", c.q.config.topic(synchronizer.Out), "error", err)
		}
	}
	return nil
}

// read moves messages into the buffer until the connection is lost.
func (c *consumer) read(s *held) {
	var unseen []client.MessageID // of records that are not for us
	shared, w := c.q.config.shared(), s.w
	messages := s.Chan()
	for {
		var m client.ConsumerMessage
		var ok bool
		select {
		case m, ok = <-messages:
		case <-w.ctx.Done():
			return
		default:
			if len(unseen) > 0 {
				c.acknowledgeUnseen(s, unseen)
				unseen = nil
			}
			select {
			case m, ok = <-messages:
			case <-w.ctx.Done():
				return
			}
		}
		if !ok {
			return
		}
		if m.Message == nil || w.seen.Load() {
			continue
		}
		r, fromServer := record(m.Message)
		if shared && !fromServer {
			if unseen = append(unseen, m.ID()); len(unseen) >= mostUnseen {
				c.acknowledgeUnseen(s, unseen)
				unseen = nil
			}
			continue
		}
		if c.buffer.put(w.ctx, entry{r, m.ID()}) != nil {
			return
		}
	}
}

// Next implements synchronizer.Consumer.
func (c *consumer) Next(ctx context.Context, most, maxBytes int) (synchronizer.Batch, error) {
	ctx, done := c.q.join(ctx)
	defer done()
	var b synchronizer.Batch
	err := c.buffer.take(ctx, most, maxBytes, func(entries []entry) {
		b.Records = make([]synchronizer.Record, len(entries))
		ids := make([]client.MessageID, len(entries))
		for i := range entries {
			b.Records[i], ids[i] = entries[i].record, entries[i].id
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last++
		number, epoch := c.last, c.epoch
		c.open = append(c.open, batch{number, ids})
		b.Ack = func(ctx context.Context) error { return c.acknowledge(ctx, number, epoch) }
	})
	if err != nil {
		return synchronizer.Batch{}, fmt.Errorf("reading records: %w", err)
	}
	return b, nil
}

// Close implements synchronizer.Consumer. What was not acknowledged goes to other
// members at once.
func (c *consumer) Close() error {
	c.end()
	c.task.Wait()
	c.q.removeReader(c)
	return nil
}
