// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"time"
	"unique"

	"synchronizer"
)

const (
	resendWindow   = 100 * time.Second // what was sent so shortly before a break may be lost
	rereadLimit    = 256               // more dirty keys than this are listed, not read one by one
	retryMin       = 500 * time.Millisecond
	retryMax       = 30 * time.Second
	notServedRetry = 30 * time.Second
	forbiddenRetry = time.Minute
	confirmDelay   = 30 * time.Second // until a list that lost very many objects is repeated
	healthyWatch   = 10 * time.Second // a watch that lived so long was worth it, even if nothing came
	maxReads       = 8                // GETs of one kind at the same time
	maxRequests    = 1024             // requests of the backend that wait for a GET
)

// State is what a kind is doing.
type State string

// The states.
const (
	StateWaiting   State = "waiting" // for the link, or for another try
	StateListing   State = "listing"
	StateWatching  State = "watching"
	StateNotServed State = "not_served"
	StateForbidden State = "forbidden"
)

var states = []State{StateWaiting, StateListing, StateWatching, StateNotServed, StateForbidden}

// effectType is what the owner of a machine has to do.
type effectType uint8

const (
	effectVerify effectType = iota + 1 // say that the object exists, and keep its body: it may be asked for
	effectPut                          // send the whole object, or what has changed
	effectDelete                       // say that the object is gone
	effectKeep                         // keep the body if there is room: it is said when effectBody asks for it
	effectBody                         // call body with what is kept
	effectForget                       // the body that is kept is not the current one any more
	effectRead                         // GET the object
	effectList                         // start a list
	effectWatch                        // start a watch from cursor
	effectStop                         // end the list or watch that runs; nothing of it is wanted any more
	effectDrop
)

type effect struct {
	do     effectType
	key    key
	item   item     // effectVerify, effectPut, effectKeep
	offer  *offer   // effectPut: the body comes from the pool, with its checksum
	answer *request // effectVerify, effectPut, effectDelete: the request that it answers; nil: none
	read   *read    // effectRead
	cursor string   // effectWatch
	reason synchronizer.DropReason
	detail string
}

// traits are what a machine is told of its kind.
type traits struct {
	window    time.Duration // in which changes of an object are merged
	relist    time.Duration // between lists of a hollow kind
	hollow    bool          // lists and watches give no bodies
	selecting bool          // an object that is deleted, for the watch, may still exist
	events    bool          // what is seen is appended; see ModeEvent
	// within tells whether a namespace is one of those that are read; nil: all are.
	within func(namespace string) bool
	// allows tells whether a namespace is carried by the rules that hold just now;
	// nil: each of them is.
	allows func(namespace string) bool
}

// machine decides for one kind. It does no I/O and knows no clock: events are
// its methods, and what is to be done is appended to effects, in order.
type machine struct {
	traits  traits
	objects map[key]entry
	dirty   int // entries with dirty set
	waiting int // entries in this stage, as the next
	leaving int
	gone    map[key]departure
	due     []key // of gone, to be told as there is room

	windows windows
	ready   []*window // that are due
	strain  int       // how busy the link is, see flushed
	merged  int       // changes, since the owner looked

	up    bool
	epoch time.Time

	state    State
	cursor   string // resourceVersion to watch from
	mark     uint16 // of the list that runs or ran last
	fresh    int    // objects that the running list saw first
	complete bool   // a list was complete, once
	relist   bool   // the next try is a list, not a watch
	failures int    // in a row
	started  time.Time
	progress bool // the watch that runs has given something
	lastErr  error
	badAt    string // cursor behind which the watch gave something unreadable

	retryAt   time.Time // zero: nothing is waited for
	confirmAt time.Time // zero: no deletions are held
	confirmed bool      // deletions were held; the next complete list is believed
	rereadAt  time.Time // zero: no read has failed
	relistAt  time.Time // zero: the kind is not hollow, or not watched
	misreads  int       // times that reads failed in a row
	pruneAt   time.Time

	reads    map[key]*read
	failed   map[key]struct{} // their reads failed; they are tried again at rereadAt
	queue    []*read          // not started
	inflight int
	requests int

	batches []*batch                           // reconciliations; the first one is answered
	hidden  map[unique.Handle[string]]struct{} // namespaces of which the last list, or what came after it, was left out

	jitter  func(time.Duration) time.Duration
	effects []effect
}

// newMachine makes a machine of a kind that was never listed, with the link down.
// Times are kept in seconds since epoch.
func newMachine(epoch time.Time, jitter func(time.Duration) time.Duration, kind traits) *machine {
	return &machine{
		traits: kind, objects: map[key]entry{}, gone: map[key]departure{},
		windows: windows{of: map[key]*window{}}, reads: map[key]*read{}, failed: map[key]struct{}{},
		hidden: map[unique.Handle[string]]struct{}{},
		epoch:  epoch, jitter: jitter, state: StateWaiting, relist: true,
	}
}

func (m *machine) do(e effect) { m.effects = append(m.effects, e) }

func (m *machine) seconds(t time.Time) uint32 {
	return uint32(max(0, t.Sub(m.epoch)/time.Second)) + 1
}

func (m *machine) since(t time.Time) time.Duration { return t.Sub(m.epoch) }

// linkUp says that messages can be sent from now on.
func (m *machine) linkUp(now time.Time) {
	m.up = true
	m.due = m.due[:0]
	for k, d := range m.gone {
		switch _, exists := m.objects[k]; {
		case exists:
			delete(m.gone, k)
		case d.due:
			m.due = append(m.due, k)
		}
	}
	m.misreads, m.rereadAt = 0, time.Time{}
	clear(m.failed)
	if m.state == StateWaiting && m.relist && m.retryAt.IsZero() {
		m.list(now)
		return
	}
	m.settle(now)
}

// linkDown says that the link broke at the time at: what was sent shortly
// before may not have arrived.
func (m *machine) linkDown(at time.Time) {
	m.up = false
	since := m.seconds(at.Add(-resendWindow))
	for k, e := range m.objects {
		if !e.dirty && (e.sent >= since || e.stage == waiting) {
			m.setDirty(k, e)
		}
	}
	for k, d := range m.gone {
		switch {
		case d.due:
		case d.at >= since:
			m.gone[k] = departure{at: d.at, due: true}
		default:
			delete(m.gone, k)
		}
	}
	m.due = nil
	for k, r := range m.reads {
		if e, known := m.objects[k]; known && len(r.requests) > 0 {
			m.setDirty(k, e)
		}
	}
	clear(m.reads)
	m.queue, m.inflight, m.requests = nil, 0, 0
	m.windows.clear()
	m.ready, m.batches = nil, nil
}

// settle sees to the dirty keys, and those that are leaving.
func (m *machine) settle(now time.Time) {
	if !m.up || m.state == StateListing {
		return // the end of the list calls again
	}
	if m.unreadMany() || m.dirty > 0 && m.misreads >= 3 && !m.traits.hollow {
		m.misreads = 0
		m.listInstead(now)
		return
	}
	m.gather()
}

// unreadMany tells whether a list is less work than to read the dirty keys.
func (m *machine) unreadMany() bool { return m.dirty > rereadLimit && !m.traits.hollow }

// listInstead lists now if the kind is watched, else as soon as it can.
func (m *machine) listInstead(now time.Time) {
	if m.state != StateWatching {
		m.relist = true
		return
	}
	m.do(effect{do: effectStop})
	m.list(now)
}

// list starts a list; without a link it waits for one, since nothing of what it
// sees could be said.
func (m *machine) list(now time.Time) {
	m.relist = true
	m.retryAt, m.relistAt = time.Time{}, time.Time{}
	if !m.up {
		m.state = StateWaiting
		return
	}
	if m.mark++; m.mark == 0 {
		for k, e := range m.objects {
			e.mark = 0
			m.objects[k] = e
		}
		m.mark = 1
	}
	m.state, m.fresh, m.started = StateListing, 0, now
	clear(m.hidden)
	m.do(effect{do: effectList})
}

func (m *machine) watch(now time.Time) {
	m.state, m.relist, m.progress, m.started, m.retryAt = StateWatching, false, false, now, time.Time{}
	m.do(effect{do: effectWatch, cursor: m.cursor})
}

// listEnded says that the list gave all it had, up to cursor, or failed.
func (m *machine) listEnded(now time.Time, cursor string, err error) {
	if err != nil {
		m.wait(now, true, err)
		return
	}
	m.complete, m.cursor, m.badAt = true, cursor, ""
	m.sweep(now)
	m.listComplete()
	if m.up && m.unreadMany() {
		m.list(now) // seen while the link was down
		return
	}
	m.lastErr = nil
	m.watch(now)
	if m.traits.hollow {
		m.relistAt = now.Add(m.jitter(m.traits.relist))
	}
	m.settle(now)
}

// watchEnded says that the watch ended; without an error the API server did it.
func (m *machine) watchEnded(now time.Time, err error) {
	relist := errors.Is(err, synchronizer.ErrGone) || errors.Is(err, synchronizer.ErrKindNotServed)
	if errors.Is(err, synchronizer.ErrInvalid) {
		// What cannot be read comes again whenever the watch is resumed there.
		relist = relist || m.badAt == m.cursor
		m.badAt = m.cursor
	}
	// One that expires again and again is not worth it, whatever it gives between.
	if m.progress && !relist || now.Sub(m.started) >= healthyWatch {
		m.failures = 0
	}
	if errors.Is(err, synchronizer.ErrGone) && m.lastErr != nil && !errors.Is(m.lastErr, synchronizer.ErrGone) {
		m.failures = 0 // it was away, and answers again
	}
	orderly := err == nil || errors.Is(err, synchronizer.ErrGone)
	switch {
	case !orderly || m.failures > 0:
		m.wait(now, relist, err)
	case relist:
		m.failures++
		m.list(now)
	default:
		m.failures++
		m.watch(now)
	}
}

// wait plans another try.
func (m *machine) wait(now time.Time, relist bool, err error) {
	delay := min(retryMin<<min(m.failures, 10), retryMax)
	m.failures++
	m.state, m.relist = StateWaiting, relist || m.relist
	if err != nil {
		m.lastErr = err
	}
	var after *synchronizer.RetryAfterError
	switch {
	case errors.Is(err, synchronizer.ErrKindNotServed):
		m.state, delay = StateNotServed, notServedRetry
	case errors.Is(err, synchronizer.ErrForbidden):
		m.state, delay = StateForbidden, forbiddenRetry
	default:
		delay = m.jitter(delay)
	}
	if errors.As(err, &after) {
		delay = max(delay, after.After)
	}
	m.retryAt = now.Add(delay)
}

// deadline is when tick has something to do; zero if never.
func (m *machine) deadline() time.Time {
	var first time.Time
	for _, t := range [...]time.Time{m.retryAt, m.confirmAt, m.rereadAt, m.relistAt, m.pruneAt} {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if len(m.windows.order) > 0 {
		if t := m.epoch.Add(m.windows.order[0].due); first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}

// tick says what time it is.
func (m *machine) tick(now time.Time) {
	reached := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	if reached(m.confirmAt) {
		if m.state != StateListing { // else that list confirms
			m.listInstead(now)
		}
		// The list that comes sees by this that the deletions were held long enough.
		m.confirmAt, m.confirmed = time.Time{}, true
	}
	if reached(m.retryAt) {
		m.retryAt = time.Time{}
		if m.relist {
			m.list(now)
		} else {
			m.watch(now)
		}
	}
	if reached(m.rereadAt) {
		m.rereadAt = time.Time{}
		clear(m.failed)
		m.settle(now)
	}
	if reached(m.relistAt) {
		m.relistAt = time.Time{}
		m.listInstead(now)
	}
	m.expire(now)
	if reached(m.pruneAt) {
		m.prune(now)
	}
}
