// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"sync"
	"sync/atomic"

	"synchronizer"
)

// mostUnheard is how many messages of one connection are remembered by name; more
// are counted.
const mostUnheard = 100

// unheard are the messages that were handed to the operating system after the
// client was last heard. If the connection ends so, nobody knows whether the client
// has read them: a link v1 has no acknowledgement. They hold no bodies.
type unheard struct {
	some atomic.Bool // there is something in it

	mu    sync.Mutex
	heard uint64 // frames of the client when the first of them was written
	names []told
	more  int
}

// told is what is remembered of a message.
type told struct {
	event synchronizer.Event
	key   synchronizer.ObjectKey
}

// hearing is a link that counts the frames of its peer, its farewell included.
type hearing interface{ Heard() uint64 }

// heard is how often the client was heard so far; ok is false if nobody knows.
func (c *connection) heard() (n uint64, ok bool) {
	if h, ok := c.link.(hearing); ok {
		return h.Heard(), true
	}
	return 0, false
}

// wrote remembers messages that were written since the client was heard so often: a
// client that has left meanwhile was heard after them.
func (c *connection) wrote(msgs []synchronizer.Message, heard uint64) {
	u := &c.unheard
	u.mu.Lock()
	defer u.mu.Unlock()
	if heard != u.heard {
		u.heard, u.more, u.names = heard, 0, u.names[:0]
	}
	u.some.Store(true)
	for i := range msgs {
		if len(u.names) == mostUnheard {
			u.more += len(msgs) - i
			return
		}
		u.names = append(u.names, told{event: msgs[i].Event, key: msgs[i].Key()})
	}
}

// hears forgets what was written before something was heard, so that a client that
// is told nothing costs nothing.
func (u *unheard) hears() {
	if !u.some.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.names, u.more = nil, 0
	u.some.Store(false)
}

// dropUnheard counts what the client may not have read, when the connection has
// ended.
func (c *connection) dropUnheard() {
	heard, ok := c.heard()
	u := &c.unheard
	u.mu.Lock()
	defer u.mu.Unlock()
	if !ok || heard != u.heard {
		return
	}
	drop := c.server.options.Drop
	for i := range u.names {
		drop(synchronizer.DropUnheard, u.names[i].event.String()+" "+u.names[i].key.String())
	}
	for range u.more {
		drop(synchronizer.DropUnheard, fmt.Sprintf("one of %d messages more for %s", u.more, c.id()))
	}
}
