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

// entry is what is known of an object. It is what was last said of it, unless
// the object is dirty or waits. It is kept small: there is one for every object
// of the cluster.
type entry struct {
	uid     [16]byte
	digest  checksum.Digest // zero: present, and not carried
	version uint64          // resourceVersion
	sent    uint32          // when something was last sent, seconds from the epoch; 0 never
	mark    uint16          // of the last list that saw it
	dirty   bool            // what was last said is not known to have arrived, or not known
	stage   stage
}

// stage is what else is to be done about an object.
type stage uint8

const (
	settled stage = iota
	waiting       // its window holds what was said; the entry is news
	leaving       // it left what is selected: a GET tells whether it still exists
)

// departure is an object that was deleted not long ago.
type departure struct {
	at  uint32 // when it was told, seconds from the epoch
	due bool   // it is still to be told
}

// problem says why an object is present and not carried.
type problem uint8

const (
	carried  problem = iota
	excluded         // by the namespace rules that hold just now
	child            // made by another workload
	unreadable
	tooLarge
)

// item is an object as the cluster gave it, after filter and policy.
type item struct {
	key     key
	uid     [16]byte
	version uint64
	digest  checksum.Digest
	sum     uint64 // fingerprint, see fingerprintOf; 0 not computed
	problem problem
	hollow  bool   // only metadata was given, there is no body
	body    []byte // transformed; owned by whoever holds the item
	detail  string // of a problem, for people
}

func (m *machine) setDirty(k key, e entry) {
	e.dirty = true
	if e.stage == waiting {
		e.stage = settled
	}
	m.store(k, e)
}

// store writes what is known of an object that exists.
func (m *machine) store(k key, e entry) {
	m.count(m.objects[k], -1)
	m.count(e, 1)
	m.objects[k] = e
	delete(m.gone, k)
}

func (m *machine) count(e entry, by int) {
	if e.dirty {
		m.dirty += by
	}
	switch e.stage {
	case waiting:
		m.waiting += by
	case leaving:
		m.leaving += by
	}
}

// pending counts what is still to be told.
func (m *machine) pending() int { return m.dirty + m.waiting + m.leaving + len(m.due) }

// forget drops all that is known of an object.
func (m *machine) forget(k key) {
	m.count(m.objects[k], -1)
	delete(m.objects, k)
	delete(m.failed, k)
	if w := m.windows.of[k]; w != nil {
		w.told, w.sum, w.awaits = false, 0, 0
	}
	m.touch(k)
	m.do(effect{do: effectForget, key: k})
}

// remove forgets an object; its deletion is told now or when there is a link.
func (m *machine) remove(now time.Time, k key) {
	_, _, told := m.lastSaid(k)
	m.forget(k)
	switch {
	case m.traits.events:
	case !m.up:
		m.gone[k] = departure{due: true}
	case told:
		m.tellGone(now, k)
	default: // and the deletion before was told: that still counts
		m.depart(now, k)
	}
}

func (m *machine) tellGone(now time.Time, k key) {
	m.depart(now, k)
	m.do(effect{do: effectDelete, key: k})
}

func (m *machine) depart(now time.Time, k key) {
	m.gone[k] = departure{at: m.seconds(now)}
	if m.pruneAt.IsZero() {
		m.pruneAt = now.Add(resendWindow + time.Second)
	}
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
	if !m.up || it.problem != carried || it.hollow {
		return false
	}
	q, _ := m.wants(it)
	return m.objects[it.key].dirty || m.isNews(it) || q != nil && q.tell == effectVerify
}

// listed says that the running list saw an object.
func (m *machine) listed(now time.Time, it item) {
	_, known := m.objects[it.key]
	switch {
	case m.listedFor(now, &it):
	case it.problem == excluded:
		m.exclude(it.key)
	case it.problem == child:
		m.hide(now, it, true)
	default:
		if !known {
			m.fresh++
		}
		m.exists(now, it, effectVerify, true)
	}
}

// changed is an event of the watch; of deleted objects only the key counts.
// Events count in the order in which they come, whatever their versions say.
func (m *machine) changed(now time.Time, typ synchronizer.WatchEventType, cursor string, it item) {
	if typ < synchronizer.WatchAdded || typ > synchronizer.WatchBookmark {
		return // of a later API server
	}
	m.lastErr = nil
	if cursor != "" && cursor != m.cursor {
		m.cursor, m.progress = cursor, true
	}
	if typ == synchronizer.WatchBookmark {
		return
	}
	e, known := m.objects[it.key]
	switch {
	case it.problem == excluded:
		m.exclude(it.key)
	case typ == synchronizer.WatchDeleted && m.traits.selecting && known:
		m.leave(it.key, e)
	case typ == synchronizer.WatchDeleted:
		m.touch(it.key)
		if known {
			m.remove(now, it.key)
		}
	case it.problem == child:
		m.hide(now, it, false)
	case typ == synchronizer.WatchModified && known && e.uid == it.uid, m.traits.events:
		m.exists(now, it, effectPut, false)
	default: // another uid under the same name is another object
		m.exists(now, it, effectVerify, false)
	}
}

// exists takes over the state of an object and says it as tell does, if it is
// news; now, or at the end of the object's window.
func (m *machine) exists(now time.Time, it item, tell effectType, listed bool) {
	old, known := m.objects[it.key]
	news := m.isNews(&it)
	e := old
	e.uid, e.version, e.digest, e.stage = it.uid, it.version, it.digest, settled
	if listed || !known {
		e.mark = m.mark
	}
	switch r := m.reads[it.key]; {
	case !known || old.uid != it.uid || old.stage == leaving:
		m.touch(it.key)
	case r != nil && news:
		r.overtaken = true
	}
	switch {
	case it.problem != carried:
		if e.dirty = false; !m.traits.hollow {
			e.digest = checksum.Digest{}
		}
		m.store(it.key, e)
		m.refuse(it)
	case !m.up:
		e.dirty = old.dirty || news
		m.store(it.key, e)
	case it.hollow:
		m.existsHollow(now, it, news, listed)
	case !news && !old.dirty:
		m.touch(it.key)
		m.store(it.key, e)
		if old.stage == waiting { // it is again what was said
			m.do(effect{do: effectForget, key: it.key})
		}
	case listed || old.dirty || m.mayGo(now, &it):
		if uid, _, told := m.lastSaid(it.key); (!told || uid != it.uid) && !m.traits.events {
			tell = effectVerify
		}
		m.say(now, it, tell, listed)
	default:
		m.postpone(now, it, old, known, listed)
	}
}

// say says the state of an object.
func (m *machine) say(now time.Time, it item, tell effectType, listed bool) {
	m.touch(it.key)
	delete(m.failed, it.key)
	e, known := m.objects[it.key]
	e.uid, e.version, e.digest, e.stage = it.uid, it.version, it.digest, settled
	e.dirty, e.sent = false, m.seconds(now)
	if listed || !known {
		e.mark = m.mark
	}
	m.store(it.key, e)
	if !m.traits.events && (!listed || m.windows.of[it.key] != nil) {
		m.arm(now, &it)
	}
	m.do(effect{do: tell, key: it.key, item: it})
}

func (m *machine) refuse(it item) {
	reason := synchronizer.DropUnreadable
	if it.problem == tooLarge {
		reason = synchronizer.DropTooLarge
	}
	m.do(effect{do: effectForget, key: it.key})
	m.do(effect{do: effectDrop, key: it.key, reason: reason, detail: it.detail})
}

// sweep removes what the complete list did not see. When very many objects
// vanish at once, the list is asked a second time before that is believed.
func (m *machine) sweep(now time.Time) {
	var vanished []key
	for k, e := range m.objects {
		switch {
		case e.mark == m.mark:
		case m.allows(k):
			vanished = append(vanished, k)
		default:
			m.exclude(k)
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
		if m.traits.selecting {
			m.leave(k, m.objects[k])
			continue
		}
		m.forget(k)
		if m.traits.events {
			continue
		}
		m.gone[k] = departure{due: true}
		if m.up {
			m.due = append(m.due, k)
		}
	}
}

// hasWork tells whether work would do something.
func (m *machine) hasWork() bool {
	return len(m.due) > 0 || len(m.ready) > 0 || len(m.queue) > 0 && m.inflight < maxReads || m.reconciles()
}

// work does a part of what is to be done when there is time: at most limit
// deletions are told, one window is ended, a reconciliation goes on, and reads are
// started.
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
	if len(m.ready) > 0 {
		w := m.ready[0]
		if m.ready = m.ready[1:]; len(m.ready) == 0 {
			m.ready = nil
		}
		m.ended(now, w)
	}
	m.reconcile(now, limit)
	m.startReads()
}

// unsent says that a message about an object was not sent.
func (m *machine) unsent(k key) {
	if e, known := m.objects[k]; known {
		m.setDirty(k, e)
	} else if !m.traits.events {
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
