// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"errors"
	"sync"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"

	"synchronizer"
)

const (
	bufferBytes   = 8 << 20
	bufferRecords = 4096
)

// entry is a record that was read and not yet taken.
type entry struct {
	record synchronizer.Record
	id     client.MessageID
}

// buffer stands between the goroutines that read from the broker and the one that
// calls Next. It is bounded in bytes; one record always fits.
type buffer struct {
	mu      sync.Mutex
	entries []entry
	bytes   int
	filled  chan struct{} // has a value when there is something to take
	room    chan struct{} // the same when something was taken
}

var errStalled = errors.New("records are not taken")

func newBuffer() *buffer {
	return &buffer{filled: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put waits for room, at most for stalledAfter.
func (b *buffer) put(ctx context.Context, e entry) error {
	size := e.record.Size()
	var stalled <-chan time.Time
	for {
		b.mu.Lock()
		if len(b.entries) == 0 || b.bytes+size <= bufferBytes && len(b.entries) < bufferRecords {
			b.entries, b.bytes = append(b.entries, e), b.bytes+size
			more := b.bytes < bufferBytes && len(b.entries) < bufferRecords
			b.mu.Unlock()
			wake(b.filled)
			if more { // several may wait
				wake(b.room)
			}
			return nil
		}
		b.mu.Unlock()
		if stalled == nil {
			t := time.NewTimer(stalledAfter)
			defer t.Stop()
			stalled = t.C
		}
		select {
		case <-b.room:
		case <-stalled:
			return errStalled
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take waits for at least one record and returns what is there, at most most
// records and about maxBytes. The caller's goroutine is the only one that takes.
// With the lock held it calls taken.
func (b *buffer) take(ctx context.Context, most, maxBytes int, taken func([]entry)) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.mu.Lock()
		if n := b.count(most, maxBytes); n > 0 {
			part := b.entries[:n:n]
			for i := range part {
				b.bytes -= part[i].record.Size()
			}
			b.entries = b.entries[n:]
			if len(b.entries) == 0 {
				b.entries = nil
			}
			taken(part)
			b.mu.Unlock()
			wake(b.room)
			return nil
		}
		b.mu.Unlock()
		select {
		case <-b.filled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b *buffer) count(most, maxBytes int) int {
	n, size := 0, 0
	for n < len(b.entries) && n < max(most, 1) {
		size += b.entries[n].record.Size()
		if n > 0 && size > maxBytes {
			break
		}
		n++
	}
	return n
}

// clear drops what was not taken; with the lock held it calls cleared.
func (b *buffer) clear(cleared func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries, b.bytes = nil, 0
	cleared()
	wake(b.room)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
