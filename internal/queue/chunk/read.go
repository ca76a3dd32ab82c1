// SPDX-License-Identifier: Apache-2.0

package chunk

import (
	"context"
	"errors"
	"sync"
	"time"

	"synchronizer"
)

// askOwner is how often a reader with open sets asks whether they are its own.
const askOwner = time.Second

// next calls the reader below until it brings something, and looks after open
// sets meanwhile.
func (j *joiner) next(ctx context.Context, lock sync.Locker, fetch, idle func(context.Context) error) error {
	for {
		lock.Lock()
		j.expire(time.Now())
		wait, open := j.wait(time.Now())
		if open && j.owns != nil {
			wait = min(wait, askOwner)
		}
		lock.Unlock()
		if err := idle(ctx); err != nil {
			return err
		}
		if !open {
			return fetch(ctx)
		}
		limited, cancel := context.WithTimeout(ctx, wait)
		err := fetch(limited)
		ended := limited.Err() != nil
		cancel()
		if err == nil || ctx.Err() != nil || !ended || errors.Is(err, synchronizer.ErrClosed) {
			return err
		}
	}
}

// tail joins what a tail reads.
type tail struct {
	synchronizer.Tail
	joiner *joiner
	mu     sync.Mutex // Close may come while Next waits
}

// Next implements synchronizer.Tail.
func (t *tail) Next(ctx context.Context) ([]synchronizer.Record, error) {
	for {
		var records []synchronizer.Record
		err := t.joiner.next(ctx, &t.mu, func(ctx context.Context) (err error) {
			records, err = t.Tail.Next(ctx)
			return err
		}, func(context.Context) error { return nil })
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		records = t.joiner.add(records, 1, time.Now())
		t.joiner.acknowledged(1) // there is nothing to acknowledge
		t.mu.Unlock()
		if len(records) > 0 {
			return records, nil
		}
	}
}

// Close implements synchronizer.Tail.
func (t *tail) Close() error {
	t.mu.Lock()
	t.joiner.close()
	t.mu.Unlock()
	return t.Tail.Close()
}

// consumer joins what a member of a group reads. Batches of the broker are
// numbered from 1 in the order in which they came.
type consumer struct {
	synchronizer.Consumer
	acking chan struct{} // held while the broker is told: in order, one at a time

	mu      sync.Mutex
	joiner  *joiner
	ready   []synchronizer.Record // of the newest batch, not returned yet
	newest  uint64
	final   uint64        // the caller is done with all batches up to here
	acked   uint64        // and the broker knows it up to here
	pending []brokerBatch // from acked+1 to newest
}

// brokerBatch is one of the broker that is not acknowledged.
type brokerBatch struct {
	ack   func(context.Context) error
	empty bool // nothing of it was returned: it is final when all before it are
}

// Next implements synchronizer.Consumer. The limits count joined records; a
// joined record counts with the batch that completes it.
func (c *consumer) Next(ctx context.Context, most, maxBytes int) (synchronizer.Batch, error) {
	for {
		if b, ok := c.take(most, maxBytes); ok {
			return b, nil
		}
		err := c.joiner.next(ctx, &c.mu, func(ctx context.Context) error {
			b, err := c.Consumer.Next(ctx, most, maxBytes)
			if err == nil {
				c.accept(b)
			}
			return err
		}, c.catchUp)
		if err != nil {
			return synchronizer.Batch{}, err
		}
	}
}

func (c *consumer) accept(b synchronizer.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest++
	c.ready = c.joiner.add(b.Records, c.newest, time.Now())
	c.pending = append(c.pending, brokerBatch{b.Ack, len(c.ready) == 0})
}

// take returns what is ready, within the limits.
func (c *consumer) take(most, maxBytes int) (synchronizer.Batch, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ready) == 0 {
		return synchronizer.Batch{}, false
	}
	n, bytes := 1, c.ready[0].Size()
	for n < len(c.ready) && n < most && bytes+c.ready[n].Size() <= maxBytes {
		bytes += c.ready[n].Size()
		n++
	}
	records := c.ready[:n:n]
	c.ready = c.ready[n:]
	covers := c.newest
	if len(c.ready) > 0 {
		covers--
	}
	return synchronizer.Batch{Records: records, Ack: func(ctx context.Context) error {
		return c.acknowledge(ctx, covers)
	}}, true
}

// acknowledge notes that all up to a batch is final, and tells the broker as
// much of it as open sets allow; what they hold back follows with a later call.
func (c *consumer) acknowledge(ctx context.Context, final uint64) error {
	c.mu.Lock()
	c.final = max(c.final, final)
	c.joiner.expire(time.Now())
	c.mu.Unlock()
	return c.tell(ctx)
}

// catchUp acknowledges what an expired set has held back.
func (c *consumer) catchUp(ctx context.Context) error {
	c.mu.Lock()
	behind := c.reach() > c.acked
	c.mu.Unlock()
	if !behind {
		return nil
	}
	if err := c.tell(ctx); err != nil && ctx.Err() == nil {
		c.joiner.Logger.Debug("acknowledging what an incomplete record held back; the next batch does it too", "error", err)
	}
	return ctx.Err()
}

// reach is the last batch that may be acknowledged now.
func (c *consumer) reach() uint64 {
	for c.final < c.newest && c.pending[c.final-c.acked].empty {
		c.final++
	}
	return max(c.acked, c.joiner.before(c.final))
}

func (c *consumer) tell(ctx context.Context) error {
	select {
	case c.acking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.acking }()
	c.mu.Lock()
	reach := c.reach()
	if reach == c.acked {
		c.mu.Unlock()
		return nil
	}
	ack := c.pending[reach-c.acked-1].ack
	c.mu.Unlock()
	if err := ack(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = c.pending[reach-c.acked:]
	c.acked = reach
	c.joiner.acknowledged(reach)
	return nil
}

// Close implements synchronizer.Consumer.
func (c *consumer) Close() error {
	c.mu.Lock()
	c.joiner.close()
	c.mu.Unlock()
	return c.Consumer.Close()
}
