// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"slices"
	"time"

	"synchronizer"
)

// request is a GetObject of the backend, or what a reconciliation needs.
type request struct {
	session *session // that it came from
	key     key
	msgID   string
	depth   int
	trace   string // traceparent of the question

	batch  *batch     // nil: a GetObject; else key is empty until the batch asks for it
	tell   effectType // of a batch: how it is answered if the object exists
	listed string     // of a batch: the checksum with which the object is not sent; empty: none
	fetch  bool       // not of the backend: the object is to be asked for, see writer
}

func (q *request) effect() effectType {
	if q.batch != nil {
		return q.tell
	}
	return effectPut
}

// read is a GET that runs or waits.
type read struct {
	key      key
	requests []request
	change   bool // the state that waits is wanted
	running  bool
	// What happened since it was started. Stale: something was said of the object,
	// or it was deleted, so that what the GET gives may be older; it is not used.
	// Overtaken: a change was seen and not said yet, so that another GET is needed
	// after this one; a constantly changing object would else never be said.
	stale     bool
	overtaken bool
}

// full tells whether so many requests wait that no more should be taken.
func (m *machine) full() bool { return m.requests >= maxRequests }

// requested is a GetObject; o is what the pool holds of the object, if anything.
func (m *machine) requested(now time.Time, q request, o *offer) {
	if !m.up {
		return
	}
	if !m.allows(q.key) {
		m.exclude(q.key) // the backend does not have what was offered to it
		m.do(effect{do: effectDrop, key: q.key, reason: synchronizer.DropSuperfluousGet, detail: outsideRules})
		return
	}
	if q.depth+1 > synchronizer.MaxDepth {
		m.do(effect{do: effectDrop, key: q.key, reason: synchronizer.DropTooDeep, detail: "GetObject"})
		return
	}
	e, known := m.objects[q.key]
	if known && o != nil && !e.dirty && e.stage != leaving && o.digest == e.digest && o.version == e.version {
		e.sent = m.seconds(now)
		if e.stage == waiting {
			e.stage = settled
			m.arm(now, &item{key: q.key, uid: e.uid, digest: e.digest})
			m.touch(q.key)
		}
		m.store(q.key, e)
		m.do(effect{do: effectPut, key: q.key, offer: o, answer: &q})
		return
	}
	if !known && m.traits.selecting {
		m.do(effect{do: effectDrop, key: q.key, reason: synchronizer.DropSuperfluousGet, detail: outsideSelectors})
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
		r.running, r.stale, r.overtaken = true, false, false
		m.do(effect{do: effectRead, key: r.key, read: r})
	}
}

// gather queues reads of keys that need one, some at a time. Those whose read
// has failed wait until they are tried again together.
func (m *machine) gather() {
	if m.dirty+m.leaving <= len(m.failed) || len(m.failed) >= rereadLimit {
		return
	}
	for k, e := range m.objects {
		if len(m.reads) >= rereadLimit {
			return
		}
		switch {
		case !e.dirty && e.stage != leaving, m.reads[k] != nil:
		case !m.allows(k):
			m.exclude(k)
		default:
			if _, failed := m.failed[k]; !failed {
				m.enqueue(k)
			}
		}
	}
}

// touch makes what a GET that runs gives too old to be used.
func (m *machine) touch(k key) {
	if r := m.reads[k]; r != nil && r.running {
		r.stale = true
	}
}

// readDone is what a GET gave.
func (m *machine) readDone(now time.Time, r *read, it item, err error) {
	if m.reads[r.key] != r {
		return // of a link before
	}
	m.inflight--
	r.running = false
	if r.stale {
		m.again(now, r)
		return
	}
	delete(m.reads, r.key)
	m.requests -= len(r.requests)
	m.answered(r)
	m.finish(now, r, it, err)
	m.resume(now, r.key)
	if len(m.queue) == 0 && m.up && m.state != StateListing && (m.traits.hollow || m.dirty <= rereadLimit) {
		m.gather()
	}
}

// again repeats a read whose result cannot be used, if it is still wanted.
func (m *machine) again(now time.Time, r *read) {
	e := m.objects[r.key]
	r.change = r.change && e.stage == waiting
	if len(r.requests) > 0 || e.dirty || e.stage == leaving || r.change {
		m.queue = append(m.queue, r)
		return
	}
	delete(m.reads, r.key)
	m.resume(now, r.key)
}

// resume sees to the window of an object after a read.
func (m *machine) resume(now time.Time, k key) {
	if w := m.windows.of[k]; w != nil && w.place < 0 && m.reads[k] == nil {
		m.windows.schedule(w, max(w.said+m.length(w), m.since(now)))
	}
}

func (m *machine) finish(now time.Time, r *read, it item, err error) {
	e, known := m.objects[r.key]
	if errors.Is(err, synchronizer.ErrTooLarge) || errors.Is(err, synchronizer.ErrInvalid) {
		it = item{key: r.key, uid: e.uid, version: e.version, digest: e.digest, problem: unreadable, detail: err.Error()}
		if errors.Is(err, synchronizer.ErrTooLarge) {
			it.problem = tooLarge
		}
		err = nil
	}
	if err == nil && len(m.failed) == 0 {
		m.misreads = 0
	}
	switch {
	case errors.Is(err, synchronizer.ErrNotFound):
		m.absent(now, r, isDeleted, e.dirty || e.stage == leaving)
		m.confirmAbsent(now, r)
	case err != nil:
		m.misread(now, r.key)
		m.unconfirmed(r)
	case it.problem == excluded:
		m.superfluous(r, outsideRules)
		m.exclude(r.key)
	case known && e.stage == leaving:
		m.left(now, r, it)
	case it.problem == child:
		m.superfluous(r, madeByAnother)
		m.hide(now, it, false)
	case !known && m.traits.selecting && slices.ContainsFunc(r.requests, request.ofBatch):
		m.superfluous(r, outsideSelectors)
	case it.problem != carried:
		if known || len(r.requests) == 0 {
			m.exists(now, it, effectVerify, false)
		} else {
			m.refuse(it)
		}
	default:
		m.current(now, r, it)
	}
}

// absent ends a read of an object that is not there (any more). The watch tells
// the deletion, except of a dirty one: there it is not known what was said.
func (m *machine) absent(now time.Time, r *read, detail string, remove bool) {
	m.superfluous(r, detail)
	if remove {
		m.remove(now, r.key)
	} else if e := m.objects[r.key]; e.stage == waiting {
		e.stage = settled
		m.store(r.key, e)
	}
}

func (m *machine) superfluous(r *read, detail string) {
	for i := range r.requests {
		reason := synchronizer.DropSuperfluousGet
		if r.requests[i].batch != nil {
			if detail == isDeleted {
				continue
			}
			reason = synchronizer.DropOutOfScope
		}
		m.do(effect{do: effectDrop, key: r.key, reason: reason, detail: detail})
	}
}

// current says the state that a GET gave.
func (m *machine) current(now time.Time, r *read, it item) {
	old, known := m.objects[r.key]
	uid, digest, told := m.lastSaid(r.key)
	w := m.windows.of[r.key]
	e := entry{uid: it.uid, version: it.version, digest: it.digest, sent: m.seconds(now), mark: old.mark}
	if !known {
		// Not seen by a list that runs: it may have been deleted before the list's
		// state. If it was created after it, the watch will say so.
		e.mark = m.mark - 1
	}
	silent := len(r.requests) == 0 && !old.dirty && told && uid == it.uid && digest == it.digest
	if silent {
		e.sent = old.sent
	}
	lags := known && old.version != it.version
	tell := effectVerify
	if known && !old.dirty && told && uid == it.uid {
		tell = effectPut
	}
	delete(m.failed, r.key)
	m.do(effect{do: effectForget, key: r.key})
	if old.stage == waiting || lags || w != nil {
		w = m.arm(now, &it)
		if w.awaits = 0; lags && !m.traits.hollow {
			w.awaits = it.version
		}
		if lags && r.overtaken { // what was seen meanwhile may be newer
			e.uid, e.version, e.digest, e.stage = old.uid, old.version, old.digest, waiting
			w.lost = true
		}
	}
	m.store(r.key, e)
	switch {
	case silent:
	case len(r.requests) == 0:
		m.do(effect{do: tell, key: r.key, item: it})
	default:
		for _, q := range r.requests {
			m.do(effect{do: q.effect(), key: r.key, item: it, answer: &q})
		}
	}
}

// misread plans when the keys whose reads failed are tried again.
func (m *machine) misread(now time.Time, k key) {
	e, known := m.objects[k]
	if !known {
		return
	}
	if e.stage != leaving {
		m.setDirty(k, e)
	}
	m.failed[k] = struct{}{}
	if m.rereadAt.IsZero() {
		delay := min(retryMin<<min(m.misreads, 10), retryMax)
		m.misreads++
		m.rereadAt = now.Add(m.jitter(delay))
	}
}
