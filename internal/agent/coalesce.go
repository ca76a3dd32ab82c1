// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"container/heap"
	"time"

	"synchronizer/internal/checksum"
)

const (
	longestWindow = 5 * time.Second  // of an object that goes on changing, or under load
	minorWindow   = 30 * time.Second // of a change that only reorders
	coolTime      = time.Minute      // for so long a window without changes is remembered
	maxCooling    = 4096             // with more windows than this none is remembered
	maxStrain     = 32
	patientLevels = 3 // windows in a row that are not yet longer: an edit, and what it sets off
	maxLevel      = 8
)

// window is the time after a message about an object in which further changes
// of it are merged. Most objects have none. It lives on for a while when nothing
// happens, because what changed once will often change again.
type window struct {
	key   key
	said  time.Duration // since the epoch: when the last message was decided on
	due   time.Duration // since the epoch: when it is to be looked at
	place int           // in windows.order; -1: not in it

	// What the backend was told last; told is false if it was told nothing, or
	// that the object is gone.
	told   bool
	uid    [16]byte
	digest checksum.Digest
	sum    uint64 // fingerprint; 0 unknown

	next   uint64 // fingerprint of the state that waits; 0 unknown
	lost   bool   // the body of the state that waits is to be read
	held   bool   // it came before the end of the window
	awaits uint64 // version that a GET gave and the watch has not reached; 0 none
	level  uint8  // how many times in a row something was held
}

// windows are those of one kind, with the first one due in front.
type windows struct {
	of    map[key]*window
	order []*window
}

// Len implements heap.Interface, as do the following.
func (w *windows) Len() int { return len(w.order) }

func (w *windows) Less(i, j int) bool { return w.order[i].due < w.order[j].due }

func (w *windows) Swap(i, j int) {
	w.order[i], w.order[j] = w.order[j], w.order[i]
	w.order[i].place, w.order[j].place = i, j
}

// Push implements heap.Interface.
func (w *windows) Push(x any) {
	added := x.(*window)
	added.place = len(w.order)
	w.order = append(w.order, added)
}

// Pop implements heap.Interface.
func (w *windows) Pop() any {
	n := len(w.order) - 1
	last := w.order[n]
	w.order[n], w.order, last.place = nil, w.order[:n], -1
	return last
}

// open gives the window of an object, a new one if it has none.
func (w *windows) open(k key) *window {
	found := w.of[k]
	if found == nil {
		found = &window{key: k, place: -1, said: -coolTime}
		w.of[k] = found
	}
	return found
}

func (w *windows) schedule(it *window, due time.Duration) {
	it.due = due
	if it.place >= 0 {
		heap.Fix(w, it.place)
	} else {
		heap.Push(w, it)
	}
}

func (w *windows) close(it *window) {
	if it.place >= 0 {
		heap.Remove(w, it.place)
	}
	delete(w.of, it.key)
}

func (w *windows) clear() { w.of, w.order = map[key]*window{}, nil }

// length is how long the window of an object is now.
func (m *machine) length(w *window) time.Duration {
	length := m.traits.window + m.traits.window*time.Duration(m.strain)/8
	return max(m.traits.window, min(length<<max(0, int(w.level)-patientLevels), longestWindow))
}

// flushed says how a Send went: full, or slow. Windows grow while that is so.
func (m *machine) flushed(full, slow bool) {
	switch {
	case slow:
		m.strain = min(m.strain+8, maxStrain)
	case full:
		m.strain = min(m.strain+1, maxStrain)
	default:
		m.strain = max(m.strain-4, 0)
	}
}

// lastSaid is what the backend was told of an object.
func (m *machine) lastSaid(k key) (uid [16]byte, digest checksum.Digest, told bool) {
	e, known := m.objects[k]
	if w := m.windows.of[k]; w != nil && known && e.stage == waiting {
		return w.uid, w.digest, w.told
	}
	return e.uid, e.digest, known
}

// isNews tells whether an item is not what the backend was told last.
func (m *machine) isNews(it *item) bool {
	uid, digest, told := m.lastSaid(it.key)
	return !told || uid != it.uid || digest != it.digest
}

// wantsSum tells whether the fingerprint of an item would help to decide.
func (m *machine) wantsSum(it *item) bool {
	return m.up && it.problem == carried && !it.hollow && m.windows.of[it.key] != nil && m.isNews(it)
}

// minor tells whether an item differs from what was said only in the order of
// arrays, as nodes shuffle their images with every heartbeat. Checksum v1 does
// not see that.
func (w *window) minor(it *item) bool {
	return w.told && w.uid == it.uid && w.sum != 0 && w.sum == it.sum
}

// mayGo tells whether a change can be said now.
func (m *machine) mayGo(now time.Time, it *item) bool {
	w := m.windows.of[it.key]
	if w == nil || m.traits.events {
		return true
	}
	if w.awaits == it.version {
		w.awaits = 0
	}
	return w.awaits == 0 && !w.minor(it) && m.since(now) >= w.said+m.length(w)
}

// postpone lets the state of an object wait for the end of its window, and starts
// one if there is none. old is the entry until now.
func (m *machine) postpone(now time.Time, it item, old entry, known, mark bool) {
	w := m.windows.open(it.key)
	if old.stage == waiting {
		m.merged++
	} else {
		w.told, w.uid, w.digest = known, old.uid, old.digest
	}
	e := old
	e.uid, e.version, e.digest, e.stage = it.uid, it.version, it.digest, waiting
	if mark || !known {
		e.mark = m.mark
	}
	m.store(it.key, e)
	w.next, w.lost = it.sum, it.hollow || w.awaits != 0
	if w.lost {
		m.do(effect{do: effectForget, key: it.key})
	} else {
		m.do(effect{do: effectKeep, key: it.key, item: it})
	}
	length := m.length(w)
	if w.minor(&it) {
		length = max(length, minorWindow)
	}
	if r := m.reads[it.key]; r == nil || !r.change {
		w.held = w.held || w.said+length > m.since(now)
		m.windows.schedule(w, max(w.said+length, m.since(now)))
	}
}

// arm starts the window of an object anew: a message about it was decided on.
func (m *machine) arm(now time.Time, it *item) *window {
	w := m.windows.open(it.key)
	w.said, w.told, w.uid, w.digest, w.sum = m.since(now), true, it.uid, it.digest, it.sum
	w.next, w.lost, w.held = 0, false, false
	m.windows.schedule(w, w.said+m.length(w))
	return w
}

// expire collects the windows that are due.
func (m *machine) expire(now time.Time) {
	for len(m.windows.order) > 0 && m.windows.order[0].due <= m.since(now) {
		m.ready = append(m.ready, heap.Pop(&m.windows).(*window))
	}
}

// ended handles a window whose time has come.
func (m *machine) ended(now time.Time, w *window) {
	if m.windows.of[w.key] != w || w.place >= 0 {
		return // closed, or started anew
	}
	e := m.objects[w.key]
	if w.held {
		w.held, w.level = false, min(w.level+1, maxLevel)
	}
	switch {
	case e.stage != waiting:
		w.level, w.awaits = 0, 0
		cold := w.said + coolTime
		if m.since(now) >= cold || len(m.windows.of) > maxCooling {
			m.windows.close(w)
			return
		}
		m.windows.schedule(w, cold)
	case w.lost:
		m.readChange(w.key)
	default:
		m.do(effect{do: effectBody, key: w.key})
	}
}

// body is what effectBody asks for: what the pool holds of the object.
func (m *machine) body(now time.Time, k key, o *offer) {
	e, known := m.objects[k]
	w := m.windows.of[k]
	if !known || w == nil || e.stage != waiting {
		return
	}
	if o == nil || o.digest != e.digest || o.version != e.version {
		m.readChange(k)
		return
	}
	tell := effectVerify // another uid under the same name is another object
	if w.told && w.uid == e.uid {
		tell = effectPut
	}
	m.say(now, item{key: k, uid: e.uid, version: e.version, digest: e.digest, sum: w.next, body: o.body}, tell, false)
}

// readChange reads the state that waits.
func (m *machine) readChange(k key) {
	r := m.reads[k]
	if r == nil {
		r = m.enqueue(k)
	}
	r.change = true
}
