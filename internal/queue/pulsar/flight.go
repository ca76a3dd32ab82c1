// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"errors"
	"sync"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"golang.org/x/sync/semaphore"

	"synchronizer"
)

// noAnswerAfter is how long a broker may be silent before the producer is made
// anew: the library keeps quiet about some refusals and some lost connections.
const noAnswerAfter = 30 * time.Second

var errNoAnswer = errors.New("broker does not confirm")

// flight is the state of one attempt to publish some records.
type flight struct {
	window *semaphore.Weighted
	done   chan struct{} // has a value when nothing is open

	mu      sync.Mutex
	cost    []int64                    // bytes of the window that record i holds; 0 when it is answered
	open    int                        // records that are sent and not answered
	failed  int                        // the first record that was not confirmed; len(cost) if none
	err     error                      // of that record
	refused synchronizer.TooLargeError // those that the library finds too large; they count as answered
	answers int
	ended   bool
}

func newFlight(window *semaphore.Weighted, n int) *flight {
	return &flight{window: window, done: make(chan struct{}, 1), cost: make([]int64, n), failed: n}
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

// answered notes the broker's answer to record i, or that it did not go out. A
// second answer is ignored, and one that comes after the end.
func (f *flight) answered(i int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	if errors.Is(err, client.ErrMessageTooLarge) || errors.Is(err, client.ErrMetaTooLarge) {
		if f.cost[i] > 0 {
			f.refused.Add(i, err)
		}
		err = nil
	}
	f.answers++
	f.settle(i, err)
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

func (f *flight) state() (open, answers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open, f.answers
}

// wait returns when every record that was sent is answered. It gives up when ctx
// ends or the broker has been silent for too long.
func (f *flight) wait(ctx context.Context) error {
	limit := time.NewTicker(noAnswerAfter)
	defer limit.Stop()
	before := -1
	for {
		open, answers := f.state()
		if open == 0 {
			return nil
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			if answers == before {
				return errNoAnswer
			}
			before = answers
		}
	}
}

// end gives the first record that was not confirmed, and why, and the library's
// refusal of records that it finds too large; what is still open failed with cause. Answers that come later are ignored.
func (f *flight) end(cause error) (failed int, refused synchronizer.TooLargeError, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	for i, cost := range f.cost {
		if cost > 0 {
			f.settle(i, cause)
		}
	}
	return f.failed, f.refused, f.err
}
