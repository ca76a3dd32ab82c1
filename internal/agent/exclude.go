// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"time"

	"synchronizer"
	"synchronizer/internal/checksum"
)

// The rules on what is carried are not about what exists: an object that they
// leave out was not deleted, and nothing is said that could be taken for it.
//
// Namespace rules can change at any time, in any goroutine's midst. Whoever
// meets an object looks at the rules of that moment and forgets what they
// exclude; what was decided before and is not sent yet ends in withhold, which
// all messages pass. Objects of an excluded namespace of which nothing is heard
// stay known: what the backend has of them is their state, so that they can go
// on from there when the namespace is included again. One that was forgotten is
// then a new one.
//
// A child workload is found by its content, so an object can become one. It
// stays known, as present and not carried: the backend has a row of it, and its
// deletion will be told.

// What is said, for people, of requests that the rules do not answer.
const (
	outsideRules  = "its namespace is excluded"
	madeByAnother = "made by another workload"
	isDeleted     = "deleted"

	outsideSelectors = "outside the selectors"
)

func (m *machine) allows(k key) bool {
	return m.traits.allows == nil || m.traits.allows(k.namespace.Value())
}

// exclude forgets all about an object, its deletion too, without a word.
func (m *machine) exclude(k key) {
	if _, known := m.objects[k]; known || m.windows.of[k] != nil {
		m.forget(k)
	}
	m.touch(k)
	delete(m.gone, k)
	m.hidden[k.namespace] = struct{}{}
}

// hide takes over that an object is a child workload now.
func (m *machine) hide(now time.Time, it item, listed bool) {
	e, known := m.objects[it.key]
	uid, _, told := m.lastSaid(it.key)
	switch {
	case !known:
		m.touch(it.key)
		return
	case !told || uid != it.uid: // deleted, and a child workload has its name
		m.remove(now, it.key)
		return
	case e.stage == waiting:
		m.do(effect{do: effectForget, key: it.key})
	}
	if e.digest != (checksum.Digest{}) || e.dirty {
		m.do(effect{do: effectDrop, key: it.key, reason: synchronizer.DropOutOfScope, detail: madeByAnother})
	}
	m.touch(it.key)
	e.version, e.digest, e.stage, e.dirty = it.version, checksum.Digest{}, settled, false
	if listed {
		e.mark = m.mark
	}
	m.store(it.key, e)
}

// withhold is the one exit: it takes out of what is about to be sent all that
// the namespace rules exclude by now, whatever led to it.
func (s *stream) withhold() {
	rules := s.agent.options.Filter
	s.out = slices.DeleteFunc(s.out, func(msg synchronizer.Message) bool {
		if rules.Namespace(msg.Namespace) {
			return false
		}
		k := keyOf(msg.Namespace, msg.Name)
		s.agent.baselines.Remove(slotKey{s, k}) // the backend does not have it
		s.machine.exclude(k)
		s.metrics.held.Inc()
		s.size -= msg.Size()
		return true
	})
	s.apply()
}
