// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"
	"unique"

	"synchronizer"
	"synchronizer/internal/checksum"
)

// key names an object within its kind. Namespaces are interned.
type key struct {
	namespace unique.Handle[string]
	name      string
}

func keyOf(namespace, name string) key { return key{unique.Make(namespace), name} }

func (k key) String() string { return k.namespace.Value() + "/" + k.name }

// entry is what was last said of an object, or, if it is dirty, what is known
// of it. It is kept small: there is one for every object of the cluster.
type entry struct {
	uid     [16]byte
	digest  checksum.Digest // zero: present, and not carried
	version uint64          // resourceVersion
	sent    uint32          // when something was last sent, seconds from the epoch; 0 never
	mark    uint16          // of the last list that saw it
	dirty   bool            // what was last said is not known to have arrived
}

// departure is an object that was deleted not long ago.
type departure struct {
	at  uint32 // when it was told, seconds from the epoch
	due bool   // it is still to be told
}

// problem says why an object is present and not carried.
type problem uint8

const (
	carried problem = iota
	filtered
	unreadable
	tooLarge
)

// item is an object as the cluster gave it, after filter and policy.
type item struct {
	key     key
	uid     [16]byte
	version uint64
	digest  checksum.Digest
	problem problem
	body    []byte // transformed; owned by whoever holds the item
	detail  string // of a problem, for people
}

func (m *machine) setDirty(k key, e entry) {
	if !e.dirty {
		e.dirty = true
		m.dirty++
		m.objects[k] = e
	}
}

// store writes what is known of an object that exists.
func (m *machine) store(k key, e entry) {
	if old, known := m.objects[k]; known && old.dirty {
		m.dirty--
	}
	if e.dirty {
		m.dirty++
	}
	m.objects[k] = e
	delete(m.gone, k)
}

// remove forgets an object; its deletion is told now or when there is a link.
func (m *machine) remove(now time.Time, k key) {
	if m.objects[k].dirty {
		m.dirty--
	}
	delete(m.objects, k)
	m.do(effect{do: effectForget, key: k})
	if !m.up {
		m.gone[k] = departure{due: true}
		return
	}
	m.tellGone(now, k)
}

func (m *machine) tellGone(now time.Time, k key) {
	m.gone[k] = departure{at: m.seconds(now)}
	if m.pruneAt.IsZero() {
		m.pruneAt = now.Add(resendWindow + time.Second)
	}
	m.do(effect{do: effectDelete, key: k})
}

// prune forgets deletions that were told long ago.
func (m *machine) prune(now time.Time) {
	m.pruneAt = time.Time{}
	since := m.seconds(now.Add(-resendWindow))
	for k, d := range m.gone {
		if !d.due && d.at < since {
			delete(m.gone, k)
		} else if m.pruneAt.IsZero() {
			m.pruneAt = now.Add(resendWindow / 4)
		}
	}
}

// needsOffer tells whether listed would send the object's checksum, so that
// room is needed for its body.
func (m *machine) needsOffer(it *item) bool {
	e, known := m.objects[it.key]
	return m.up && it.problem == carried && (!known || e.dirty || e.digest != it.digest || e.uid != it.uid)
}

// listed says that the running list saw an object.
func (m *machine) listed(now time.Time, it item) {
	if it.problem == filtered {
		m.touch(it.key)
		return // swept, if it was carried before
	}
	if _, known := m.objects[it.key]; !known {
		m.fresh++
	}
	m.exists(now, it, effectVerify, true)
}

// changed is an event of the watch; of deleted objects only the key counts.
func (m *machine) changed(now time.Time, typ synchronizer.WatchEventType, cursor string, it item) {
	m.progress, m.lastErr = true, nil
	if cursor != "" {
		m.cursor = cursor
	}
	if typ == synchronizer.WatchBookmark {
		return
	}
	e, known := m.objects[it.key]
	switch {
	case typ == synchronizer.WatchDeleted || it.problem == filtered:
		m.touch(it.key)
		if known {
			m.remove(now, it.key)
		}
	case typ == synchronizer.WatchModified && known && e.uid == it.uid:
		m.exists(now, it, effectPut, false)
	default: // another uid under the same name is another object
		m.exists(now, it, effectVerify, false)
	}
}

// exists takes over the state of an object and says it as tell does, if it is
// news.
func (m *machine) exists(now time.Time, it item, tell effectType, mark bool) {
	m.touch(it.key)
	old, known := m.objects[it.key]
	e := old
	e.uid, e.version, e.digest = it.uid, it.version, it.digest
	if mark || !known {
		e.mark = m.mark
	}
	news := !known || old.uid != it.uid || old.digest != it.digest
	switch {
	case it.problem != carried:
		e.digest, e.dirty = checksum.Digest{}, false
		m.refuse(it)
	case !m.up:
		e.dirty = old.dirty || news
	case news || old.dirty:
		e.dirty, e.sent = false, m.seconds(now)
	}
	m.store(it.key, e)
	switch {
	case it.problem != carried:
		m.do(effect{do: effectForget, key: it.key})
	case m.up && (news || old.dirty):
		m.do(effect{do: tell, key: it.key, item: it})
	}
}

func (m *machine) refuse(it item) {
	reason := synchronizer.DropUnreadable
	if it.problem == tooLarge {
		reason = synchronizer.DropTooLarge
	}
	m.do(effect{do: effectDrop, key: it.key, reason: reason, detail: it.detail})
}

// sweep removes what the complete list did not see. When very many objects
// vanish at once, the list is asked a second time before that is believed.
func (m *machine) sweep(now time.Time) {
	var vanished []key
	for k, e := range m.objects {
		if e.mark != m.mark {
			vanished = append(vanished, k)
		}
	}
	before := len(m.objects) - m.fresh
	if len(vanished) > 20 && len(vanished)*10 > before*3 && !m.confirmed {
		if m.confirmAt.IsZero() {
			m.confirmAt = now.Add(confirmDelay)
		}
		return
	}
	m.confirmAt, m.confirmed = time.Time{}, false
	for _, k := range vanished {
		if m.objects[k].dirty {
			m.dirty--
		}
		delete(m.objects, k)
		m.touch(k)
		m.gone[k] = departure{due: true}
		if m.up {
			m.due = append(m.due, k)
		}
	}
}

// hasWork tells whether work would do something.
func (m *machine) hasWork() bool {
	return len(m.due) > 0 || len(m.queue) > 0 && m.inflight < maxReads
}

// work does a part of what is to be done when there is time: at most limit
// deletions are told, and reads are started.
func (m *machine) work(now time.Time, limit int) {
	n := min(limit, len(m.due))
	for _, k := range m.due[:n] {
		if _, exists := m.objects[k]; !exists && m.gone[k].due {
			m.tellGone(now, k)
		}
	}
	if m.due = m.due[n:]; len(m.due) == 0 {
		m.due = nil
	}
	m.startReads()
}

// unsent says that a message about an object was not sent.
func (m *machine) unsent(k key) {
	if e, known := m.objects[k]; known {
		m.setDirty(k, e)
	} else {
		m.gone[k] = departure{due: true}
	}
}

// unanswered says that a request of the backend was lost with its link.
func (m *machine) unanswered(k key) {
	if e, known := m.objects[k]; known {
		m.setDirty(k, e)
	}
}

// sentAgain says that a message about an object needed until now to be sent.
func (m *machine) sentAgain(now time.Time, k key) {
	if e, known := m.objects[k]; known {
		e.sent = m.seconds(now)
		m.objects[k] = e
	} else if d, told := m.gone[k]; told {
		m.gone[k] = departure{at: m.seconds(now), due: d.due}
	}
}
