// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"os"
	"runtime/debug"
	"time"
)

// The heap of thousands of idle clients is large and does not change, and Go's
// collector lets as much again gather before it runs. With half of that a server of
// 10,000 clients still collects less often than one of few clients with all of it,
// to which half would cost a sixth more CPU per message.
const (
	manyClients   = 2000
	gcPercent     = 100 // Go's own
	gcPercentMany = 50
	memoryLook    = 5 * time.Second
)

// keepSmall sets the collector by the number of clients until ctx ends, and gives
// back to the system what a storm of connections has left, when it is over. GOGC in
// the environment wins.
func (b *Backend) keepSmall(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return nil
	}
	defer debug.SetGCPercent(gcPercent) // other servers of the process may go on
	tick := time.NewTicker(memoryLook)
	defer tick.Stop()
	seen := crowd{percent: gcPercent}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		before := seen.percent
		over := seen.look(b.relay.Clients())
		if seen.percent != before {
			debug.SetGCPercent(seen.percent)
		}
		if over {
			debug.FreeOSMemory()
		}
	}
}

// crowd is what was seen of the number of clients.
type crowd struct {
	percent int // for the collector
	last    int // clients at the last look
	settled int // clients when a storm was over; fewer if some have gone since
}

// look reports whether a storm is over: at least manyClients have come since the one
// before, and hardly anybody since the last look.
func (c *crowd) look(clients int) (over bool) {
	c.percent = gcPercent
	if clients >= manyClients {
		c.percent = gcPercentMany
	}
	over = clients-c.last < manyClients/100 && clients-c.settled >= manyClients
	if over {
		c.settled = clients
	}
	c.settled, c.last = min(c.settled, clients), clients
	return over
}
