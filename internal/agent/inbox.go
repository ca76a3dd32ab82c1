// SPDX-License-Identifier: Apache-2.0

package agent

import "sync"

// inboxLimit bounds the requests of a kind that wait for its owner.
const inboxLimit = 4096

// inbox holds requests of the backend until the owner of the kind takes them.
// The reader of the link puts in, the owner takes out.
type inbox struct {
	ready chan struct{} // has a token when there is something to take
	room  chan struct{} // has a token when something was taken
	gone  chan struct{} // closed when nothing will be taken any more

	mu      sync.Mutex
	waiting []request
	batches int // of them
}

func newInbox() *inbox {
	return &inbox{ready: make(chan struct{}, 1), room: make(chan struct{}, 1), gone: make(chan struct{})}
}

// close says that nothing will be taken any more. It is called once, by the
// owner; put may be called afterwards, and does nothing.
func (b *inbox) close() { close(b.gone) }

// put adds a request. It waits while the inbox is full, at most until the
// request's session is down or the owner has left.
func (b *inbox) put(q request) {
	for !b.add(q) {
		select {
		case <-b.room:
		case <-q.session.down:
			return
		case <-b.gone:
			return
		}
	}
	signal(b.ready)
}

func (b *inbox) add(q request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(b.waiting) >= inboxLimit, q.batch != nil && b.batches > 0: // they are large
		return false
	case q.batch != nil:
		b.batches++
	}
	b.waiting = append(b.waiting, q)
	return true
}

// take removes the oldest request.
func (b *inbox) take() (q request, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return request{}, false
	}
	q, b.waiting[0] = b.waiting[0], request{}
	if q.batch != nil {
		b.batches--
	}
	if b.waiting = b.waiting[1:]; len(b.waiting) == 0 {
		b.waiting = nil
	} else {
		signal(b.ready)
	}
	signal(b.room)
	return q, true
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
