// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"time"

	"synchronizer"
	"synchronizer/internal/checksum"
)

const (
	batchReads     = 2 * maxReads // GETs that a reconciliation lets wait at the same time
	waitingBatches = 8            // of one kind, behind the one that is answered
	waitingItems   = 100_000      // of those, in all
)

func (q request) ofBatch() bool { return q.batch != nil }

// reconciled is a reconciliation of the backend.
func (m *machine) reconciled(b *batch) {
	switch {
	case !m.up:
		return
	case m.traits.events:
		m.do(effect{do: effectDrop, key: keyOf("", "*"), reason: synchronizer.DropUnsupported, detail: "a reconciliation of reports"})
		return
	case b.depth+1 > synchronizer.MaxDepth:
		m.do(effect{do: effectDrop, key: keyOf("", "*"), reason: synchronizer.DropTooDeep, detail: "a reconciliation"})
		return
	}
	waiting := len(b.items)
	for i := range m.batches {
		if i > 0 {
			waiting += len(m.batches[i].items)
		}
	}
	// The one that came last knows best; the one that is answered goes on.
	for len(m.batches) > 1 && (waiting > waitingItems || len(m.batches) > waitingBatches) {
		waiting -= len(m.batches[1].items)
		m.batches = slices.Delete(m.batches, 1, 2)
		m.do(effect{do: effectDrop, key: keyOf("", "*"), reason: synchronizer.DropBacklog, detail: "a reconciliation that waited for a list, and newer ones came"})
	}
	m.batches = append(m.batches, b)
}

// isRead tells whether what is known of the kind is what the cluster has: it was
// read completely, no watch is missing and no deletion is held.
func (m *machine) isRead() bool {
	return m.complete && m.state == StateWatching && m.confirmAt.IsZero() && !m.confirmed
}

// missing tells whether the rules let something pass by now that they left out
// when it was seen.
func (m *machine) missing() bool {
	for namespace := range m.hidden {
		if m.allows(key{namespace: namespace}) {
			return true
		}
	}
	return false
}

// reconciles tells whether reconcile would do something.
func (m *machine) reconciles() bool {
	if len(m.batches) == 0 || !m.up {
		return false
	}
	b := m.batches[0]
	switch {
	case !b.begun:
		return m.isRead()
	case b.byList:
		return b.listed
	case b.cursor < b.length():
		return b.open < batchReads
	}
	return b.open == 0
}

func (b *batch) length() int {
	if b.pass == passUnlisted {
		return len(b.keys)
	}
	return len(b.items)
}

// reconcile does a part of what the reconciliation in front needs: at most limit
// deletions are told, and reads are wanted.
func (m *machine) reconcile(now time.Time, limit int) {
	if !m.reconciles() {
		return
	}
	b := m.batches[0]
	switch {
	case !b.begun && m.missing():
		m.listInstead(now)
	case !b.begun:
		m.begin(now, b)
	case b.byList && b.pass == passAbsent && b.cursor < len(b.items):
		m.tellAbsent(now, b, limit)
	case b.byList:
		m.endPass(b)
	case b.cursor < b.length():
		m.wantReads(now, b)
	case b.unread && !m.traits.selecting:
		b.begun = false
	default:
		m.endPass(b)
	}
}

// begin decides how the things of a pass are read.
func (m *machine) begin(now time.Time, b *batch) {
	again := b.unread
	b.begun, b.unread, b.cursor = true, false, 0
	wanted := 0
	switch b.pass {
	case passUnlisted:
		for k := range m.objects {
			if m.unlisted(b, k) {
				b.keys = append(b.keys, k)
			}
		}
		wanted = len(b.keys)
	default:
		for i := range b.items {
			if m.wanted(b, i) {
				wanted++
			}
		}
	}
	// A list of hollow objects has no bodies, and one with a selector does not tell
	// what exists.
	useless := m.traits.hollow
	if b.pass == passAbsent {
		useless = m.traits.selecting
	}
	if useless || wanted == 0 || wanted <= rereadLimit && !again {
		return
	}
	b.byList, b.keys, b.done = true, nil, make([]bool, len(b.items))
	m.listInstead(now)
}

// wanted tells whether the pass has to do something about an item.
func (m *machine) wanted(b *batch, i int) bool {
	k := b.key(i)
	e, known := m.objects[k]
	switch {
	case b.pass == passAbsent && unreal(k.name):
		return !known
	case !m.allows(k) || m.traits.within != nil && !m.traits.within(b.items[i].Namespace):
		return false
	case b.pass == passAbsent:
		return !known
	}
	return known && m.says(e) && b.differs(i, e.version)
}

// says tells whether something can be said of an object at all.
func (m *machine) says(e entry) bool { return e.digest != (checksum.Digest{}) && e.stage != leaving }

// unlisted tells whether the backend does not have an object of which it was
// told. Those that are dirty are told anyhow.
func (m *machine) unlisted(b *batch, k key) bool {
	e, known := m.objects[k]
	return known && !e.dirty && m.says(e) && m.allows(k) && b.find(k) < 0
}

// wantReads lets the next objects of the pass be read.
func (m *machine) wantReads(now time.Time, b *batch) {
	for ; b.cursor < b.length() && b.open < batchReads; b.cursor++ {
		if b.pass == passUnlisted {
			if k := b.keys[b.cursor]; m.unlisted(b, k) {
				m.want(b.request(k, effectVerify, ""))
			}
			continue
		}
		i := b.cursor
		switch {
		case !m.wanted(b, i):
		case b.pass == passAbsent && unreal(b.items[i].Name):
			m.answerGone(now, b, b.key(i))
		default:
			k := b.key(i)
			k.name = strings.Clone(k.name)
			m.want(b.request(k, effectPut, b.unless(i)))
		}
	}
}

// unless is the checksum with which an object need not be sent.
func (b *batch) unless(i int) string {
	if b.items[i].ResourceVersion <= 0 {
		return "" // who lists it so wants the object
	}
	return b.items[i].Checksum
}

func (m *machine) want(q request) {
	r := m.reads[q.key]
	if r == nil {
		r = m.enqueue(q.key)
	}
	r.requests = append(r.requests, q)
	m.requests++
	q.batch.open++
}

// answered says that a read has ended.
func (m *machine) answered(r *read) {
	for i := range r.requests {
		if b := r.requests[i].batch; b != nil {
			b.open--
		}
	}
}

// unconfirmed says that a read has failed. Of objects that are known the owner of
// the kind sees to it; of the others nothing is said without a list.
func (m *machine) unconfirmed(r *read) {
	for i := range r.requests {
		if b := r.requests[i].batch; b != nil && b.pass == passAbsent {
			b.unread = true
		}
	}
}

// confirmAbsent answers those who asked by a reconciliation for an object that
// turned out not to exist.
func (m *machine) confirmAbsent(now time.Time, r *read) {
	for _, q := range r.requests {
		if _, known := m.objects[r.key]; q.batch != nil && !known && q.batch.pass == passAbsent {
			m.answerGone(now, q.batch, r.key)
		}
	}
}

func (m *machine) answerGone(now time.Time, b *batch, k key) {
	k.name = strings.Clone(k.name)
	m.tellGone(now, k)
	q := b.request(k, effectDelete, "")
	m.effects[len(m.effects)-1].answer = &q
}

// tellAbsent tells what the complete list did not have.
func (m *machine) tellAbsent(now time.Time, b *batch, limit int) {
	for ; b.cursor < len(b.items) && limit > 0; b.cursor++ {
		if !b.done[b.cursor] && m.wanted(b, b.cursor) {
			m.answerGone(now, b, b.key(b.cursor))
			limit--
		}
	}
}

// listedFor answers a reconciliation with what a list gave; false if that is not
// called for.
func (m *machine) listedFor(now time.Time, it *item) bool {
	q, i := m.wants(it)
	if q == nil {
		return false
	}
	b := q.batch
	if q.tell == 0 { // it exists, that is all
		b.done[i] = true
		return false
	}
	if _, known := m.objects[it.key]; !known {
		m.fresh++
	}
	if i >= 0 {
		b.done[i] = true
	}
	m.say(now, *it, q.tell, true)
	m.effects[len(m.effects)-1].answer = q
	return true
}

// wants gives the request of the reconciliation in front that an item of the
// list which runs answers, and its place among the items.
func (m *machine) wants(it *item) (*request, int) {
	if len(m.batches) == 0 || !m.up {
		return nil, -1
	}
	b := m.batches[0]
	if !b.begun || !b.byList || b.listed {
		return nil, -1
	}
	i := b.find(it.key)
	switch {
	case b.pass == passAbsent && i >= 0:
		q := b.request(it.key, 0, "")
		return &q, i
	case it.problem != carried || it.hollow:
	case b.pass == passChanged && i >= 0 && !b.done[i] && b.differs(i, it.version):
		q := b.request(it.key, effectPut, b.unless(i))
		return &q, i
	case b.pass == passUnlisted && i < 0:
		q := b.request(it.key, effectVerify, "")
		return &q, i
	}
	return nil, -1
}

// listComplete says that the list which ran was complete.
func (m *machine) listComplete() {
	if len(m.batches) > 0 && m.batches[0].begun && m.batches[0].byList {
		m.batches[0].listed = true
	}
}

func (m *machine) endPass(b *batch) {
	b.pass++
	b.begun, b.byList, b.listed, b.unread, b.cursor, b.keys, b.done = false, false, false, false, 0, nil, nil
	if b.pass == passEnd {
		m.batches = slices.Delete(m.batches, 0, 1)
	}
}
