// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"sync"
)

// errEnded is what an ended pump says if its operation did not fail before.
var errEnded = errors.New("connection has ended")

// pump is a bounded buffer in front of a batch operation. The operation runs in
// a goroutine that exists only while there is something to do, so an idle
// connection costs none; what arrives while it runs is the next batch.
type pump[T any] struct {
	max int                   // bytes that may wait or be worked on
	run func(batch []T) error // called by one goroutine at a time

	mu      sync.Mutex
	waiting []T
	failed  []T // the batch on which run failed
	bytes   int // of waiting and of the batch being worked on
	running bool
	err     error         // of run, or errEnded: the pump takes nothing any more
	changed chan struct{} // closed and replaced when room appears, or the end
}

func newPump[T any](max int, run func([]T) error) *pump[T] {
	return &pump[T]{max: max, run: run, changed: make(chan struct{})}
}

// offer adds v if there is room now. One item always has room in an empty pump.
func (p *pump[T]) offer(v T, size int) (accepted bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.add(v, size)
}

// offerBeyond is offer for an item that may reach beyond the bound by itself: it
// is accepted if there is any room.
func (p *pump[T]) offerBeyond(v T, size int) (accepted bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	room := p.max - p.bytes
	if room <= 0 || size <= room {
		return p.add(v, size)
	}
	accepted, err = p.add(v, room)
	if accepted {
		p.bytes += size - room
	}
	return accepted, err
}

// put waits for room.
func (p *pump[T]) put(ctx context.Context, v T, size int) error {
	for {
		p.mu.Lock()
		ok, err := p.add(v, size)
		changed := p.changed
		p.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end refuses what comes from now on, waits for the batch that is being worked
// on, and returns the batch on which run failed and what was never given to it.
func (p *pump[T]) end() (failed, waiting []T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = errEnded
		p.signal()
	}
	for p.running {
		changed := p.changed
		p.mu.Unlock()
		<-changed
		p.mu.Lock()
	}
	failed, waiting = p.failed, p.waiting
	p.failed, p.waiting = nil, nil
	return failed, waiting
}

// flush waits until everything was worked on.
func (p *pump[T]) flush(ctx context.Context) error {
	for {
		p.mu.Lock()
		idle, err, changed := !p.running, p.err, p.changed
		p.mu.Unlock()
		if idle || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// add needs the lock.
func (p *pump[T]) add(v T, size int) (bool, error) {
	if p.err != nil {
		return false, p.err
	}
	if p.bytes > 0 && p.bytes+size > p.max {
		return false, nil
	}
	p.waiting = append(p.waiting, v)
	p.bytes += size
	if !p.running {
		p.running = true
		go p.work()
	}
	return true, nil
}

// work runs batches until nothing waits. While there is always more, two slices
// take turns; a pump that rests holds none.
func (p *pump[T]) work() {
	var spare []T
	for {
		p.mu.Lock()
		if len(p.waiting) == 0 || p.err != nil {
			if len(p.waiting) == 0 {
				p.waiting = nil
			}
			p.running = false
			p.signal()
			p.mu.Unlock()
			return
		}
		batch, bytes := p.waiting, p.bytes
		p.waiting = spare
		p.mu.Unlock()

		err := p.run(batch)
		if spare = nil; err == nil {
			clear(batch) // what it holds is done with
			spare = batch[:0]
		}

		p.mu.Lock()
		p.bytes -= bytes
		if err != nil {
			p.failed = batch
			if p.err == nil {
				p.err = err
			}
		}
		p.signal()
		p.mu.Unlock()
	}
}

// signal needs the lock.
func (p *pump[T]) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}
