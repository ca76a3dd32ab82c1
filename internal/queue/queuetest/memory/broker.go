// SPDX-License-Identifier: Apache-2.0

// Package memory is a broker in memory that keeps the contract of
// synchronizer.Queue, for tests of what stands around a queue.
package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"synchronizer"
)

// Broker holds everything that was ever published. Its one partition is called
// "memory". A group has one member at a time.
type Broker struct {
	// MaxRecord is the largest record in bytes of key, properties and payload; 0
	// means no limit.
	MaxRecord int

	mu      sync.Mutex
	arrived chan struct{} // closed and replaced when a log grows
	logs    map[synchronizer.Direction][]synchronizer.Record
	groups  map[string]*membership
}

type membership struct {
	acked  int
	member *consumer
}

// Open is one more process on the broker.
func (m *Broker) Open() synchronizer.Queue {
	q := &process{broker: m}
	q.ctx, q.end = context.WithCancelCause(context.Background())
	return q
}

// Records are all that were ever published to a direction.
func (m *Broker) Records(of synchronizer.Direction) []synchronizer.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]synchronizer.Record(nil), m.logs[of]...)
}

// Acked is how many records of Out a group has acknowledged.
func (m *Broker) Acked(group string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.groups[group]; g != nil {
		return g.acked
	}
	return 0
}

func (m *Broker) append(to synchronizer.Direction, records []synchronizer.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.logs == nil {
		m.logs = map[synchronizer.Direction][]synchronizer.Record{}
	}
	var tooLarge synchronizer.TooLargeError
	for i, r := range records {
		if size := sizeOf(&r); m.MaxRecord > 0 && size > m.MaxRecord {
			tooLarge.Add(i, fmt.Errorf("publishing to %s: record of %q with %d bytes: %w", to, r.Key, size, synchronizer.ErrTooLarge))
			continue
		}
		r.Payload = bytes.Clone(r.Payload)
		r.Properties = append([]synchronizer.Property(nil), r.Properties...)
		r.Partition, r.Position = "memory", uint64(len(m.logs[to])+1)
		m.logs[to] = append(m.logs[to], r)
	}
	if m.arrived != nil {
		close(m.arrived)
		m.arrived = nil
	}
	return tooLarge.OrNil()
}

func sizeOf(r *synchronizer.Record) int {
	size := len(r.Key) + len(r.Payload)
	for _, p := range r.Properties {
		size += len(p.Name) + len(p.Value)
	}
	return size
}

// from waits for records behind a position.
func (m *Broker) from(ctx context.Context, of synchronizer.Direction, position, most, maxBytes int) ([]synchronizer.Record, error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, fmt.Errorf("reading records: %w", err)
		}
		m.mu.Lock()
		var records []synchronizer.Record
		size := 0
		for _, r := range m.logs[of][position:] {
			size += r.Size()
			if len(records) == most || (len(records) > 0 && size > maxBytes) {
				break
			}
			r.Payload = bytes.Clone(r.Payload) // the caller owns it
			r.Properties = append([]synchronizer.Property(nil), r.Properties...)
			records = append(records, r)
		}
		if m.arrived == nil {
			m.arrived = make(chan struct{})
		}
		arrived := m.arrived
		m.mu.Unlock()
		if len(records) > 0 {
			return records, nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
		}
	}
}

type process struct {
	broker *Broker
	ctx    context.Context
	end    context.CancelCauseFunc
}

// join bounds ctx by the life of the queue.
func (q *process) join(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(q.ctx, func() { cancel(context.Cause(q.ctx)) })
	if q.ctx.Err() != nil {
		cancel(context.Cause(q.ctx))
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

func (q *process) Publish(ctx context.Context, to synchronizer.Direction, records []synchronizer.Record) error {
	ctx, done := q.join(ctx)
	defer done()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("publishing: %w", err)
	}
	return q.broker.append(to, records)
}

func (q *process) Close(context.Context) error {
	q.end(synchronizer.ErrClosed)
	return nil
}

func (q *process) Tail(ctx context.Context) (synchronizer.Tail, error) {
	ctx, done := q.join(ctx)
	defer done()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("starting tail: %w", err)
	}
	return &tail{q: q, position: len(q.broker.Records(synchronizer.In))}, nil
}

type tail struct {
	q        *process
	position int
}

func (t *tail) Next(ctx context.Context) ([]synchronizer.Record, error) {
	ctx, done := t.q.join(ctx)
	defer done()
	records, err := t.q.broker.from(ctx, synchronizer.In, t.position, 500, 4<<20)
	t.position += len(records)
	return records, err
}

func (t *tail) Close() error { return nil }

func (q *process) Consume(ctx context.Context, group string) (synchronizer.Consumer, error) {
	ctx, done := q.join(ctx)
	defer done()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("joining group %q: %w", group, err)
	}
	m := q.broker
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.groups == nil {
		m.groups = map[string]*membership{}
	}
	g := m.groups[group]
	if g == nil {
		g = &membership{}
		m.groups[group] = g
	}
	if g.member != nil && g.member.q.ctx.Err() == nil {
		return nil, fmt.Errorf("%w: group %q has a member already", synchronizer.ErrInvalid, group)
	}
	c := &consumer{q: q, group: g, position: g.acked}
	g.member = c
	return c, nil
}

type consumer struct {
	q        *process
	group    *membership
	position int
}

func (c *consumer) Next(ctx context.Context, most, maxBytes int) (synchronizer.Batch, error) {
	ctx, done := c.q.join(ctx)
	defer done()
	records, err := c.q.broker.from(ctx, synchronizer.Out, c.position, most, maxBytes)
	if err != nil {
		return synchronizer.Batch{}, err
	}
	c.position += len(records)
	final := c.position
	return synchronizer.Batch{Records: records, Ack: func(ctx context.Context) error {
		ctx, done := c.q.join(ctx)
		defer done()
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("acknowledging: %w", err)
		}
		c.q.broker.mu.Lock()
		defer c.q.broker.mu.Unlock()
		if c.group.member != c {
			return errors.New("acknowledging: the group has another member")
		}
		c.group.acked = max(c.group.acked, final)
		return nil
	}}, nil
}

func (c *consumer) Close() error {
	c.q.broker.mu.Lock()
	defer c.q.broker.mu.Unlock()
	if c.group.member == c {
		c.group.member = nil
	}
	return nil
}
