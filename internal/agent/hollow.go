// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"synchronizer"
)

// existsHollow takes over what a list or watch says of an object of a hollow
// kind: that it changed, but not to what. Nothing is said before a GET has given
// the body. Those that a list brings are dirty: the backend may have them.
func (m *machine) existsHollow(now time.Time, it item, news, listed bool) {
	old, known := m.objects[it.key]
	if news && !old.dirty && (!listed || old.stage == waiting) {
		m.postpone(now, it, old, known, listed)
		return
	}
	e := old
	e.uid, e.version, e.digest, e.stage = it.uid, it.version, it.digest, settled
	e.dirty = old.dirty || news
	if listed || !known {
		e.mark = m.mark
	}
	m.store(it.key, e)
	if e.dirty && !listed {
		m.gather()
	}
}

// leave says that an object is not seen any more through the selectors. Whether
// it was deleted or does not match them any more, a GET tells.
func (m *machine) leave(k key, e entry) {
	m.touch(k)
	if e.stage == waiting {
		m.do(effect{do: effectForget, key: k})
		e.dirty = true // the entry is not what was said
	}
	e.stage = leaving
	m.store(k, e)
	if m.up && m.reads[k] == nil && len(m.reads) < rereadLimit {
		m.enqueue(k)
	}
}

// left handles what a GET gave of an object that was not seen any more.
func (m *machine) left(now time.Time, r *read, it item) {
	m.superfluous(r, outsideSelectors)
	if m.objects[r.key].uid != it.uid { // deleted, and another one has its name
		m.remove(now, r.key)
		return
	}
	m.forget(r.key)
	m.do(effect{do: effectDrop, key: r.key, reason: synchronizer.DropOutOfScope})
}
