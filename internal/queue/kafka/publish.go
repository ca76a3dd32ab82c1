// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"

	"synchronizer"
)

const (
	recordOverhead = 512 // of a record that waits, besides its bytes
	groupBytes     = 256 << 10
	groupRecords   = 256
	firstPause     = 50 * time.Millisecond
	longestPause   = time.Second
)

// publisher hands records to the client, which keeps the order of what it was
// given, per partition.
type publisher struct {
	*Config
	client *kgo.Client
	window *semaphore.Weighted
}

func newPublisher(config *Config, client *kgo.Client) *publisher {
	return &publisher{Config: config, client: client, window: semaphore.NewWeighted(windowBytes)}
}

// publish sends all records and waits for them. From the first that was not
// confirmed, all are sent again.
func (p *publisher) publish(ctx context.Context, to synchronizer.Direction, records []synchronizer.Record) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publishing to %s: %w", to, context.Cause(ctx))
	}
	var (
		tooLarge synchronizer.TooLargeError
		alone    bool // the broker refused a batch for its size: find out whose it is
		pause    = firstPause
		next     = 0
	)
	for next < len(records) {
		rest := records[next:]
		if alone {
			rest = rest[:1]
		}
		failed, large, err := p.attempt(ctx, to, rest)
		tooLarge.Take(large, next, failed)
		if failed > 0 {
			pause = firstPause
		}
		next += failed
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return fmt.Errorf("publishing to %s: %w (%w)", to, context.Cause(ctx), err)
		case errors.Is(err, kerr.MessageTooLarge) && alone:
			tooLarge.Add(next, p.tooLarge(to, &records[next], err))
			next++
			continue
		case errors.Is(err, kerr.MessageTooLarge):
			alone = true
			continue
		case errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.InvalidTimestamp):
			return fmt.Errorf("publishing to %s: record of %q: %w", to, records[next].Key, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("publishing to %s: %w (%w)", to, context.Cause(ctx), err)
		case <-time.After(pause):
			pause = min(2*pause, longestPause)
		}
	}
	return tooLarge.OrNil()
}

func (p *publisher) tooLarge(to synchronizer.Direction, r *synchronizer.Record, cause error) error {
	err := fmt.Errorf("publishing to %s: record of %q with %d bytes (%smaxMessageBytes is %d): %w",
		to, r.Key, wireSize(r), section, p.MaxMessageBytes, synchronizer.ErrTooLarge)
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// attempt sends the records once, in order, and waits until each is confirmed or
// known not to be. failed is the number of those before the first that was not.
// large are the records above the limit, which are not sent.
func (p *publisher) attempt(ctx context.Context, to synchronizer.Direction, records []synchronizer.Record) (failed int, large *synchronizer.TooLargeError, err error) {
	large = &synchronizer.TooLargeError{}
	f := &flight{failed: len(records), open: 1, done: make(chan struct{})}
	topic := p.topic(to)
	for from := 0; from < len(records) && !f.hasFailed(); {
		upTo, cost := group(records, from)
		if err := p.window.Acquire(ctx, cost); err != nil {
			f.fail(from, err)
			break
		}
		for _, i := range p.send(f, topic, records[from:upTo], from, cost) {
			large.Add(from+i, p.tooLarge(to, &records[from+i], nil))
		}
		from = upTo
	}
	f.answered()
	failed, err = f.wait(ctx)
	return failed, large, err
}

// group takes records from the list that share an allocation and a place in the
// window.
func group(records []synchronizer.Record, from int) (upTo int, cost int64) {
	size := 0
	for upTo = from; upTo < len(records) && upTo-from < groupRecords; upTo++ {
		next := records[upTo].Size() + recordOverhead
		if upTo > from && size+next > groupBytes {
			break
		}
		size += next
	}
	return upTo, int64(min(size, windowBytes))
}

// send hands a group to the client. It returns the records above the limit, none of
// which are sent.
func (p *publisher) send(f *flight, topic string, records []synchronizer.Record, first int, cost int64) (large []int) {
	memory := newArena(records)
	out := make([]kgo.Record, len(records))
	var left atomic.Int32
	left.Store(1)
	release := func() {
		if left.Add(-1) == 0 {
			p.window.Release(cost)
		}
	}
	defer release()
	for i := range records {
		if wireSize(&records[i]) > p.MaxMessageBytes {
			large = append(large, i)
			continue
		}
		memory.fill(&out[i], topic, &records[i])
		left.Add(1)
		f.sent()
		// Without a context of the caller's: a record that is taken back while it is
		// on its way would cost the producer its sequence of numbers.
		p.client.Produce(context.Background(), &out[i], func(_ *kgo.Record, err error) {
			if err != nil {
				f.fail(first+i, err)
			}
			f.answered()
			release()
		})
	}
	return large
}

// flight is one attempt of a call: which record was the first that failed.
type flight struct {
	mu     sync.Mutex
	failed int
	err    error
	open   int           // answers that are missing, and one for the sender
	done   chan struct{} // closed when none is
}

func (f *flight) sent() {
	f.mu.Lock()
	f.open++
	f.mu.Unlock()
}

func (f *flight) answered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open--
	if f.open == 0 {
		close(f.done)
	}
}

func (f *flight) fail(i int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || i < f.failed {
		f.failed, f.err = i, err
	}
}

func (f *flight) hasFailed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err != nil
}

// wait returns when all is answered, or ctx ends.
func (f *flight) wait(ctx context.Context) (failed int, err error) {
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open > 0 && f.err == nil {
		return 0, fmt.Errorf("waiting for %d confirmations", f.open)
	}
	return f.failed, f.err
}
