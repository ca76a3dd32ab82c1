// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"container/list"
	"sync"
	"time"

	"synchronizer/internal/checksum"
)

// answerPause is how long a list waits for room in the pool while the backend
// asks for nothing.
const answerPause = 250 * time.Millisecond

// offerOverhead is what an offer costs beside its body, in bytes, near enough.
const offerOverhead = 256

// offer is a body whose checksum was sent, and which the backend may ask for; or
// one that waits for the end of its window.
type offer struct {
	digest   checksum.Digest
	version  uint64
	checksum string // empty: not computed
	body     []byte
}

// pool keeps offers of all kinds of a process within one bound in bytes, so that
// most requests of a first sync need no GET. The oldest offers go first.
type pool struct {
	limit int

	mu       sync.Mutex
	used     int
	order    *list.List // of *slot, oldest first
	slots    map[slotKey]*list.Element
	answered time.Time     // when the backend last got an answer
	freed    chan struct{} // closed and replaced when room was made; nil if nobody waits
}

type slotKey struct {
	owner *stream
	key   key
}

type slot struct {
	slotKey
	offer offer
}

func newPool(limit int) *pool {
	return &pool{limit: limit, order: list.New(), slots: map[slotKey]*list.Element{}}
}

func (o *offer) size() int { return offerOverhead + len(o.body) }

// add keeps an offer in place of an earlier one of the object. One above the
// limit is not kept.
func (p *pool) add(owner *stream, k key, o offer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := slotKey{owner, k}
	p.remove(p.slots[id])
	if o.size() > p.limit {
		return
	}
	for p.used+o.size() > p.limit {
		p.remove(p.order.Front())
	}
	p.insert(id, o)
}

func (p *pool) insert(id slotKey, o offer) {
	p.used += o.size()
	p.slots[id] = p.order.PushBack(&slot{slotKey: id, offer: o})
}

// keep is add for an offer that nobody else's has to go for. Without room only
// the earlier one of the object is removed.
func (p *pool) keep(owner *stream, k key, o offer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := slotKey{owner, k}
	p.remove(p.slots[id])
	if p.used+o.size() <= p.limit {
		p.insert(id, o)
	}
}

// take removes and returns the offer of an object; nil if there is none.
func (p *pool) take(owner *stream, k key) *offer {
	p.mu.Lock()
	defer p.mu.Unlock()
	element := p.slots[slotKey{owner, k}]
	if element == nil {
		return nil
	}
	o := element.Value.(*slot).offer
	p.remove(element)
	return &o
}

// answer says that the backend got what it asked for.
func (p *pool) answer(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = now
}

// forget removes the offer of an object.
func (p *pool) forget(owner *stream, k key) { p.take(owner, k) }

// leave removes all offers of an owner.
func (p *pool) leave(owner *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for element := p.order.Front(); element != nil; {
		next := element.Next()
		if element.Value.(*slot).owner == owner {
			p.remove(element)
		}
		element = next
	}
}

// clear removes all offers.
func (p *pool) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for element := p.order.Front(); element != nil; element = p.order.Front() {
		p.remove(element)
	}
}

// room tells whether a body of n bytes should be offered now. If not, wait until
// freed is closed or for the given time: the backend is busy asking.
func (p *pool) room(n int, now time.Time) (wait time.Duration, freed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used+n+offerOverhead <= p.limit || n+offerOverhead > p.limit || p.answered.IsZero() {
		return 0, nil
	}
	if wait = answerPause - now.Sub(p.answered); wait <= 0 {
		return 0, nil
	}
	if p.freed == nil {
		p.freed = make(chan struct{})
	}
	return wait, p.freed
}

// remove drops one slot; p.mu is held.
func (p *pool) remove(element *list.Element) {
	if element == nil {
		return
	}
	s := p.order.Remove(element).(*slot)
	delete(p.slots, s.slotKey)
	p.used -= s.offer.size()
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}

// size is how many bytes the pool holds.
func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}
