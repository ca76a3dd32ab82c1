// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"runtime/debug"
	"sync"
	"time"
)

const (
	largeList  = 1000            // objects from which a list leaves much garbage
	relaxAfter = 5 * time.Second // behind the last large list, when its answers have gone out
)

// relaxer gives memory back after large lists, those of the API server and those of
// the backend in a reconciliation. Nothing else would: an agent that
// watches allocates so little that the collector would not run again for long.
// Measured at 100,000 objects: 65 MiB RSS before, 35 MiB after.
type relaxer struct {
	agent  *Agent
	listed chan struct{} // capacity 1
}

func newRelaxer(a *Agent) *relaxer { return &relaxer{agent: a, listed: make(chan struct{}, 1)} }

// after says that a list of so many objects was read.
func (r *relaxer) after(objects int) {
	if objects < largeList {
		return
	}
	select {
	case r.listed <- struct{}{}:
	default:
	}
}

// run works until ctx ends.
func (r *relaxer) run(ctx context.Context, running *sync.WaitGroup) {
	running.Go(func() {
		for {
			select {
			case <-r.listed:
				if !r.relax(ctx) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
}

// relax waits until no large list has ended for a while, drops the bodies that
// nobody has asked for (they can be read again), and frees memory. False when ctx
// has ended.
func (r *relaxer) relax(ctx context.Context) bool {
	for {
		after, stop := r.agent.options.Clock.After(relaxAfter)
		select {
		case <-r.listed:
			stop()
		case <-ctx.Done():
			stop()
			return false
		case <-after:
			r.agent.pool.clear()
			debug.FreeOSMemory()
			return true
		}
	}
}
