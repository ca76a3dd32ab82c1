// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"errors"
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

	use     sync.RWMutex // held for reading while the subscription is used
	current subscription

	mu   sync.Mutex // after the lock of the buffer
	open []batch    // returned by Next and not acknowledged, oldest first
	last uint64
	// epoch counts the subscriptions. Ids of an earlier one mean nothing to a later.
	epoch uint64
}

// subscription is what is used of the library's consumer.
type subscription interface {
	Chan() <-chan client.ConsumerMessage
	AckIDList(ids []client.MessageID) error
	Close()
}

type batch struct {
	number uint64
	ids    []client.MessageID
}

var errAnew = errors.New("delivery has begun anew, the records come again")

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
	w, sub, err := c.subscribe(ctx)
	if err != nil {
		c.end()
		return nil, fmt.Errorf("joining group %q: %w", group, err)
	}
	if err := q.addReader(c); err != nil {
		c.end()
		sub.Close()
		return nil, fmt.Errorf("joining group %q: %w", group, err)
	}
	c.task.Go(func() { c.run(w, sub) })
	return c, nil
}

func (c *consumer) subscribe(ctx context.Context) (*watched, subscription, error) {
	w := newWatched(c.ctx)
	names, err := c.q.partitions(ctx, synchronizer.Out)
	if err != nil {
		w.lost()
		return nil, nil, err
	}
	w.partitions = len(names)
	sub, err := within(ctx, c.q, func() (subscription, error) { return c.q.subscribe(c.group, w.policy) }, subscription.Close)
	if err != nil {
		w.lost()
		return nil, nil, fmt.Errorf("subscribing: %w", err)
	}
	w.armed.Store(true)
	return w, sub, nil
}

// run owns the subscription.
func (c *consumer) run(w *watched, sub subscription) {
	for {
		c.use.Lock()
		c.current = sub
		c.use.Unlock()

		watched := w
		c.task.Go(func() { c.discover(watched) })
		c.read(w, sub)
		w.leave()

		c.buffer.clear(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.epoch++
			c.open = nil
		})
		c.use.Lock() // waits for acknowledgements on the way
		c.current = nil
		c.use.Unlock()
		sub.Close()
		if w, sub = c.again(); sub == nil {
			return
		}
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
func (c *consumer) again() (*watched, subscription) {
	p := pauses{backOff{c.q.config.RedeliveryDelay}}
	for p.wait(c.ctx) {
		w, sub, err := c.subscribe(c.ctx)
		if err == nil {
			return w, sub
		}
		if c.ctx.Err() == nil {
			c.q.config.Logger.Warn("queue: cannot read, trying again", "topic", c.q.config.topic(synchronizer.Out), "error", err)
		}
	}
	return nil, nil
}

// read moves messages into the buffer until the connection is lost.
func (c *consumer) read(w *watched, sub subscription) {
	var unseen []client.MessageID // of records that are not for us
	shared := c.q.config.shared()
	messages := sub.Chan()
	for {
		var m client.ConsumerMessage
		var ok bool
		select {
		case m, ok = <-messages:
		case <-w.ctx.Done():
			return
		default:
			if len(unseen) > 0 {
				c.acknowledgeUnseen(sub, unseen)
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
				c.acknowledgeUnseen(sub, unseen)
				unseen = nil
			}
			continue
		}
		if c.buffer.put(w.ctx, entry{r, m.ID()}) != nil {
			return
		}
	}
}

// acknowledgeUnseen may fail: then they come again.
func (c *consumer) acknowledgeUnseen(sub subscription, ids []client.MessageID) {
	if err := sub.AckIDList(ids); err != nil && c.ctx.Err() == nil {
		c.q.config.Logger.Warn("queue: cannot acknowledge records of others", "records", len(ids), "error", plain(err))
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

// acknowledge covers the batch and all before it, and returns when the broker has
// it. Key_Shared knows no cumulative acknowledgement, so every id is named.
func (c *consumer) acknowledge(ctx context.Context, number, epoch uint64) error {
	ctx, done, err := c.q.enter(ctx)
	if err != nil {
		return fmt.Errorf("acknowledging: %w", err)
	}
	defer done()
	ids, err := c.covered(number, epoch)
	if err != nil {
		return fmt.Errorf("acknowledging: %w", err)
	}
	if len(ids) == 0 {
		return nil
	}
	_, err = within(ctx, c.q, func() (struct{}, error) {
		c.use.RLock()
		defer c.use.RUnlock()
		if c.current == nil {
			return struct{}{}, errAnew
		}
		if _, err := c.covered(number, epoch); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, c.current.AckIDList(ids)
	}, func(struct{}) {})
	if err != nil {
		return fmt.Errorf("acknowledging: %w", plain(err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.epoch == epoch && len(c.open) > 0 && c.open[0].number <= number {
		c.open = c.open[1:]
	}
	return nil
}

// covered are the ids that an acknowledgement of a batch stands for.
func (c *consumer) covered(number, epoch uint64) ([]client.MessageID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, synchronizer.ErrClosed
	}
	if c.epoch != epoch {
		return nil, errAnew
	}
	var ids []client.MessageID
	for _, b := range c.open {
		if b.number > number {
			break
		}
		ids = append(ids, b.ids...)
	}
	return ids, nil
}

// plain shortens the library's error, which names each id.
func plain(err error) error {
	var refused client.AckError
	if errors.As(err, &refused) {
		for _, reason := range refused {
			return reason
		}
	}
	return err
}

// Close implements synchronizer.Consumer. What was not acknowledged goes to other
// members at once.
func (c *consumer) Close() error {
	c.end()
	c.task.Wait()
	c.q.removeReader(c)
	return nil
}
