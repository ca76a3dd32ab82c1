// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"synchronizer"
)

// memberAckTimeout is short, since a broker that was killed may have forgotten what
// is acknowledged, and is silent then.
const memberAckTimeout = 3 * time.Second

// deliver queues a record for Next. Called with mu held.
func (m *member) deliver(d delivery) {
	if m.first == len(m.ready) {
		m.ready, m.first = m.ready[:0], 0
	}
	m.ready = append(m.ready, d)
	signal(m.wake)
}

// Next implements synchronizer.Consumer.
func (m *member) Next(ctx context.Context, most, maxBytes int) (synchronizer.Batch, error) {
	ctx, done := m.q.join(ctx)
	defer done()
	most, maxBytes = max(1, most), max(1, maxBytes)
	for {
		if ctx.Err() == nil {
			if batch := m.take(most, maxBytes); len(batch.Records) > 0 {
				return batch, nil
			}
		}
		select {
		case <-ctx.Done():
			return synchronizer.Batch{}, fmt.Errorf("reading records: %w", context.Cause(ctx))
		case <-m.ctx.Done():
			return synchronizer.Batch{}, fmt.Errorf("reading records: consumer: %w", synchronizer.ErrClosed)
		case <-m.wake:
		}
	}
}

func (m *member) take(most, maxBytes int) (batch synchronizer.Batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	size, refill := 0, false
	for m.first < len(m.ready) && len(batch.Records) < most && size < maxBytes {
		d := m.ready[m.first]
		m.ready[m.first] = delivery{}
		m.first++
		p := d.part
		if d.generation != p.generation {
			continue
		}
		if batch.Records == nil {
			batch.Records = make([]synchronizer.Record, 0, min(most, len(m.ready)-m.first+1))
		}
		batch.Records = append(batch.Records, record(d.msg, p.name, d.number))
		size += len(d.msg.Data)
		p.buffered--
		p.bytes -= len(d.msg.Data)
		refill = refill || p.left == 0
		if d.number >= p.returned.number { // again: the newer delivery counts
			p.returned = point{p, p.epoch, d.number, d.msg.Reply}
		}
	}
	if m.first < len(m.ready) {
		signal(m.wake) // for the next call
	}
	if refill {
		signal(m.poked)
	}
	if len(batch.Records) > 0 {
		var points []point
		for _, p := range m.parts {
			if p.returned.number > p.acked {
				points = append(points, p.returned)
			}
		}
		batch.Ack = func(ctx context.Context) error { return m.acknowledge(ctx, points) }
	}
	return batch
}

// acknowledge tells the broker up to where each partition is final. A partition
// that went to another member meanwhile, or began anew, is left out: what was not
// acknowledged there comes again by itself.
func (m *member) acknowledge(ctx context.Context, points []point) error {
	open := m.valid(points)
	if m.ctx.Err() != nil {
		return fmt.Errorf("acknowledging: the records come again: %w", synchronizer.ErrClosed)
	}
	switch len(open) {
	case 0:
		return nil
	case 1:
		if err := m.acknowledgeOne(ctx, open[0]); err != nil {
			return err
		}
	default:
		var all errgroup.Group
		for _, at := range open {
			all.Go(func() error { return m.acknowledgeOne(ctx, at) })
		}
		if err := all.Wait(); err != nil {
			return err
		}
	}
	m.q.trimmer.poke()
	return nil
}

// valid are the points that still mean something.
func (m *member) valid(points []point) []point {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := make([]point, 0, len(points))
	for _, at := range points {
		if at.epoch == at.part.epoch && at.number > at.part.acked {
			open = append(open, at)
		}
	}
	return open
}

func (m *member) acknowledgeOne(ctx context.Context, at point) error {
	for {
		err := m.q.acknowledge(ctx, at.reply, memberAckTimeout)
		m.mu.Lock()
		p := at.part
		same := at.epoch == p.epoch
		if err == nil && same && at.number > p.acked {
			p.acked = at.number
			if p.state == draining {
				signal(m.poked)
			}
		}
		m.mu.Unlock()
		if err == nil || !same {
			return nil
		}
		if m.ctx.Err() != nil {
			return fmt.Errorf("acknowledging: the records come again: %w", synchronizer.ErrClosed)
		}
		select {
		case <-ctx.Done():
			return err
		case <-m.q.ctx.Done():
			return err
		case <-time.After(lostPause):
		}
	}
}

// Owns reports whether records of the partition (Record.Partition) come to this
// member.
func (m *member) Owns(partition string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.parts {
		if p.name == partition {
			return p.state != off && p.state != draining
		}
	}
	return false
}
