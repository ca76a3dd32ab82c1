// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"

	"synchronizer"
)

const (
	tailRecords = 512
	tailBytes   = 4 << 20
	tailAhead   = 16 // fetched ahead by the library, per partition
)

// tail reads In with one reader per partition, none of which leaves a subscription
// behind. Each partition knows the last record that went into the buffer, so a
// reader that is lost is replaced by one that begins behind it.
type tail struct {
	q      *Queue
	buffer *buffer
	ctx    context.Context // ends with Close
	end    context.CancelFunc
	tasks  sync.WaitGroup
}

// Tail implements synchronizer.Queue.
func (q *Queue) Tail(ctx context.Context) (synchronizer.Tail, error) {
	ctx, done, err := q.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting tail: %w", err)
	}
	defer done()
	t := &tail{q: q, buffer: newBuffer()}
	t.ctx, t.end = context.WithCancel(q.ctx)
	names, err := q.partitions(ctx, synchronizer.In)
	if err != nil {
		t.end()
		return nil, fmt.Errorf("starting tail: %w", err)
	}
	parts := make([]*part, len(names))
	for i, name := range names {
		if parts[i], err = t.fix(ctx, name); err != nil {
			for _, p := range parts[:i] {
				p.leave()
			}
			t.end()
			return nil, fmt.Errorf("starting tail: %w", err)
		}
	}
	if err := q.addReader(t); err != nil {
		t.end()
		for _, p := range parts {
			p.leave()
		}
		return nil, fmt.Errorf("starting tail: %w", err)
	}
	for _, p := range parts {
		t.tasks.Go(p.run)
	}
	t.tasks.Go(func() { t.discover(names) })
	return t, nil
}

// discover looks for partitions that appear later; they are read from their
// beginning.
func (t *tail) discover(known []string) {
	ticker := time.NewTicker(t.q.config.partitionsNew)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-t.ctx.Done():
			return
		}
		names, err := t.q.partitions(t.ctx, synchronizer.In)
		if err != nil {
			continue // the readers tell of a lost connection
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				known = append(known, name)
				p := &part{t: t, topic: name, start: client.EarliestMessageID()}
				t.tasks.Go(p.run)
			}
		}
	}
}

// Next implements synchronizer.Tail.
func (t *tail) Next(ctx context.Context) ([]synchronizer.Record, error) {
	ctx, done := t.q.join(ctx)
	defer done()
	var records []synchronizer.Record
	err := t.buffer.take(ctx, tailRecords, tailBytes, func(entries []entry) {
		records = make([]synchronizer.Record, len(entries))
		for i := range entries {
			records[i] = entries[i].record
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reading records: %w", err)
	}
	return records, nil
}

// Close implements synchronizer.Tail.
func (t *tail) Close() error {
	t.end()
	t.tasks.Wait()
	t.q.removeReader(t)
	return nil
}

// part is the tail of one partition.
type part struct {
	t     *tail
	topic string
	start client.MessageID // the reader begins behind it
	last  client.MessageID // of what went into the buffer; nil at first
	// The reader that is used now, if any.
	reader messageReader
	watch  *watched
}

// messageReader is what is used of the library's reader.
type messageReader interface {
	Next(ctx context.Context) (client.Message, error)
	GetLastMessageID() (client.MessageID, error)
	Close()
}

// fix makes the tail of a partition, from its end.
func (t *tail) fix(ctx context.Context, topic string) (*part, error) {
	p := &part{t: t, topic: topic, start: client.LatestMessageID()}
	// A reader that begins at "latest" would begin at another end after a lost
	// connection. So the end is asked for, by a first reader.
	connect := func() (client.MessageID, error) { return p.connect(ctx) }
	end, err := insist(ctx, connect)
	if err != nil {
		return nil, err
	}
	p.leave()
	p.start = client.EarliestMessageID()
	if end.EntryID() >= 0 {
		p.start = plainID(end)
	}
	_, err = insist(ctx, connect)
	return p, err
}

// plainID has nothing of the reader that it came from.
func plainID(id client.MessageID) client.MessageID {
	return client.NewMessageID(id.LedgerID(), id.EntryID(), id.BatchIdx(), id.PartitionIdx())
}

// connect makes a reader, and gives the end of the partition.
func (p *part) connect(ctx context.Context) (end client.MessageID, err error) {
	w := newWatched(p.t.ctx)
	w.partitions = 1
	var asked client.MessageID
	reader, err := open(ctx, p.t.q, w, func() (messageReader, error) {
		return p.t.q.newReader(p.topic, p.start, w.policy)
	}, func(r messageReader) error {
		var err error
		asked, err = r.GetLastMessageID()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", p.topic, err)
	}
	p.reader, p.watch = reader, w
	return asked, nil
}

func (p *part) leave() {
	p.watch.leave()
	p.reader.Close()
	p.reader = nil
}

func (p *part) run() {
	pause := pauses{backOff{firstBackOff}}
	for {
		if p.reader == nil {
			if _, err := p.connect(p.t.ctx); err != nil {
				if p.t.ctx.Err() == nil {
					p.t.q.config.Logger.Warn("queue: cannot read, trying again", "error", err)
				}
				if !pause.wait(p.t.ctx) {
					return
				}
				continue
			}
		}
		if p.read() {
			pause.Reset()
		}
		p.watch.leave()
		p.t.tasks.Go(p.reader.Close) // it may have to wait for a broker that is silent
		p.reader = nil
		if p.last != nil {
			p.start = plainID(p.last)
		}
		if !pause.wait(p.t.ctx) {
			return
		}
	}
}

// read moves messages into the buffer until the connection is lost; some tells
// whether there were any.
func (p *part) read() (some bool) {
	for {
		m, err := p.reader.Next(p.watch.ctx)
		if err != nil || m == nil || p.watch.seen.Load() {
			return some
		}
		some = true
		if p.last != nil && !after(m.ID(), p.last) {
			continue
		}
		if r, fromServer := record(m); !fromServer {
			if p.t.buffer.put(p.watch.ctx, entry{r, m.ID()}) != nil {
				return some
			}
		}
		p.last = m.ID()
	}
}
