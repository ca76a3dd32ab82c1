// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"time"

	"synchronizer"
)

// request is a GetObject of the backend.
type request struct {
	session *session // that it came from
	key     key
	msgID   string
	depth   int
}

// read is a GET that runs or waits. What it gives is used only if nothing was
// heard of the object since it was started.
type read struct {
	key      key
	requests []request // none: the key is dirty
	running  bool
	touched  bool
}

// full tells whether so many requests wait that no more should be taken.
func (m *machine) full() bool { return m.requests >= maxRequests }

// requested is a GetObject; o is what the pool holds of the object, if anything.
func (m *machine) requested(now time.Time, q request, o *offer) {
	if !m.up {
		return
	}
	if q.depth+1 > synchronizer.MaxDepth {
		m.do(effect{do: effectDrop, key: q.key, reason: synchronizer.DropTooDeep, detail: "GetObject"})
		return
	}
	if e, known := m.objects[q.key]; known && o != nil && !e.dirty && o.digest == e.digest && o.version == e.version {
		e.sent = m.seconds(now)
		m.objects[q.key] = e
		m.do(effect{do: effectPut, key: q.key, offer: o, answer: &q})
		return
	}
	r := m.reads[q.key]
	if r == nil {
		r = m.enqueue(q.key)
	}
	r.requests = append(r.requests, q)
	m.requests++
}

func (m *machine) enqueue(k key) *read {
	r := &read{key: k}
	m.reads[k] = r
	m.queue = append(m.queue, r)
	return r
}

func (m *machine) startReads() {
	for len(m.queue) > 0 && m.inflight < maxReads {
		r := m.queue[0]
		m.queue = m.queue[1:]
		m.inflight++
		r.running, r.touched = true, false
		m.do(effect{do: effectRead, key: r.key, read: r})
	}
}

// touch says that something was heard of the object, so that a GET that runs
// may give an older state.
func (m *machine) touch(k key) {
	if r := m.reads[k]; r != nil && r.running {
		r.touched = true
	}
}

// readDone is what a GET gave.
func (m *machine) readDone(now time.Time, r *read, it item, err error) {
	if m.reads[r.key] != r {
		return // of a link before
	}
	m.inflight--
	r.running = false
	e, known := m.objects[r.key]
	if r.touched {
		if len(r.requests) > 0 || e.dirty {
			m.queue = append(m.queue, r)
		} else {
			delete(m.reads, r.key)
		}
		return
	}
	delete(m.reads, r.key)
	m.requests -= len(r.requests)
	switch {
	case errors.Is(err, synchronizer.ErrNotFound):
		m.absent(now, r, "deleted")
	case err != nil:
		if known {
			m.setDirty(r.key, e)
		}
		m.misread(now)
	case it.problem == filtered:
		m.absent(now, r, "outside the rules")
	case it.problem != carried:
		m.misreads = 0
		m.exists(now, it, effectVerify, false)
	default:
		m.misreads = 0
		m.current(now, r, it)
	}
}

// absent ends a read of an object that is not there (any more). The watch tells
// the deletion, except of a dirty one: there it is not known what was said.
func (m *machine) absent(now time.Time, r *read, detail string) {
	for range r.requests {
		m.do(effect{do: effectDrop, key: r.key, reason: synchronizer.DropSuperfluousGet, detail: detail})
	}
	if m.objects[r.key].dirty {
		m.remove(now, r.key)
	}
}

// current says the state that a GET gave.
func (m *machine) current(now time.Time, r *read, it item) {
	e, known := m.objects[r.key]
	e.uid, e.version, e.digest = it.uid, it.version, it.digest
	e.dirty, e.sent = false, m.seconds(now)
	if !known {
		// Not seen by a list that runs: it may have been deleted before the list's
		// state. If it was created after it, the watch will say so.
		e.mark = m.mark - 1
	}
	m.store(r.key, e)
	if len(r.requests) == 0 {
		m.do(effect{do: effectVerify, key: r.key, item: it})
		return
	}
	m.do(effect{do: effectForget, key: r.key})
	for _, q := range r.requests {
		m.do(effect{do: effectPut, key: r.key, item: it, answer: &q})
	}
}

// misread plans when the dirty keys are tried again.
func (m *machine) misread(now time.Time) {
	if m.rereadAt.IsZero() {
		delay := min(retryMin<<min(m.misreads, 10), retryMax)
		m.misreads++
		m.rereadAt = now.Add(m.jitter(delay))
	}
}
