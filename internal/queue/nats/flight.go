// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// flight is the state of one attempt to publish some records.
type flight struct {
	id     uint64
	window *semaphore.Weighted
	done   chan struct{} // has a value when something may have to be noticed

	mu       sync.Mutex
	cost     []int64 // bytes of the window that record i holds; 0 when it is answered
	open     int     // records that are sent and not answered
	failed   int     // the first record that was not confirmed; len(cost) if none
	err      error   // of that record
	answers  int
	finished bool
}

func (f *flight) hasFailed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed < len(f.cost)
}

// sent notes that record i goes out now.
func (f *flight) sent(i int, cost int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cost[i] = cost
	f.open++
}

// answered notes the broker's answer to record i. A second answer is ignored.
func (f *flight) answered(i int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i >= len(f.cost) || f.cost[i] == 0 || f.finished {
		return
	}
	f.answers++
	f.settle(i, err)
}

// fail notes that record i did not go out.
func (f *flight) fail(i int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle(i, err)
}

// lost settles every record that is sent and not answered.
func (f *flight) lost(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, cost := range f.cost {
		if cost > 0 && !f.finished {
			f.settle(i, err)
		}
	}
}

// settle is called with mu held.
func (f *flight) settle(i int, err error) {
	if f.cost[i] > 0 {
		f.window.Release(f.cost[i])
		f.cost[i] = 0
		f.open--
	}
	if err != nil && i < f.failed {
		f.failed, f.err = i, err
	}
	if f.open == 0 {
		select {
		case f.done <- struct{}{}:
		default:
		}
	}
}

// wait returns when every record that was sent is answered: the first that was
// not confirmed, and why. It gives up when ctx ends or the broker has been
// silent for too long; then the first open record counts as failed.
func (f *flight) wait(ctx context.Context) (failed int, err error) {
	silence := time.NewTimer(noAnswerAfter)
	defer silence.Stop()
	answers := -1
	for {
		f.mu.Lock()
		if f.open == 0 {
			defer f.mu.Unlock()
			return f.failed, f.err
		}
		if answers != f.answers {
			answers = f.answers
			silence.Reset(noAnswerAfter)
		}
		f.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return f.giveUp(context.Cause(ctx))
		case <-silence.C:
			f.mu.Lock()
			silent := answers == f.answers
			f.mu.Unlock()
			if silent {
				return f.giveUp(errNoAnswer)
			}
		}
	}
}

func (f *flight) giveUp(err error) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.failed {
		if f.cost[i] > 0 {
			f.failed, f.err = i, err
			break
		}
	}
	return f.failed, f.err
}

// abandon gives back what the flight holds of the window.
func (f *flight) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finished = true
	for _, cost := range f.cost {
		if cost > 0 {
			f.window.Release(cost)
		}
	}
}
