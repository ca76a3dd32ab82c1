// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"synchronizer"
)

// stream owns one kind: run is the only goroutine that touches the fields below
// it. It waits for input, lets the machine decide, and sends.
type stream struct {
	agent   *Agent
	config  KindConfig
	kind    synchronizer.Kind
	cluster synchronizer.Cluster // what the selectors leave of it
	metrics *kindMetrics
	inbox   *inbox
	answers chan answer

	status status

	ctx     context.Context // ends the feeder and the reads
	life    context.Context // ends a Send
	running sync.WaitGroup  // feeders and reads
	machine *machine
	session *session // the link that messages go to; nil if there is none
	broken  *session // the last one that failed
	feed    *feeder  // nil if none runs
	held    *feedItem
	out     []synchronizer.Message
	size    int    // of out, in bytes
	base    []byte // buffers for patches
	diff    []byte
	listing time.Time
}

// answer is what a GET gave.
type answer struct {
	read *read
	item item
	err  error
}

// newStream makes the stream of a kind; metrics are set before run is called. It
// can be run once, at any time, and stopped at any time. One that is stopped
// leaves nothing behind but what was sent.
func newStream(a *Agent, c KindConfig) *stream {
	s := &stream{
		agent: a, config: c, kind: c.Kind, cluster: a.options.Cluster,
		inbox: newInbox(), answers: make(chan answer, maxReads),
		machine: newMachine(a.options.Clock.Now(), spread, traits{
			window: a.options.CoalesceWindow, relist: a.options.HollowRelist,
			hollow: c.Hollow, selecting: c.selecting(), events: c.Mode == ModeEvent,
			allows: a.options.Filter.Namespace,
		}),
	}
	if len(c.Namespaces) > 0 {
		s.machine.traits.within = func(namespace string) bool { return slices.Contains(c.Namespaces, namespace) }
	}
	if a.options.Select != nil {
		s.cluster = a.options.Select(c)
	}
	return s
}

func (s *stream) now() time.Time { return s.agent.options.Clock.Now() }

// run works until ctx ends and sends then what it has ready, as long as life
// lasts.
func (s *stream) run(ctx, life context.Context) {
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(ctx)
	s.life = life
	defer s.leave()
	defer s.running.Wait()
	defer cancel()
	for s.next(ctx, true) {
		for len(s.out) < batchMessages && s.size < batchBytes && s.next(ctx, false) {
		}
		s.flush()
		s.publish()
	}
	s.flush()
}

// leave gives back what all kinds share.
func (s *stream) leave() {
	s.inbox.close()
	s.agent.pool.leave(s)
	s.forgetBaselines()
}

// next handles one input. If none is there it waits, or, if it must not block,
// returns false; so it does when ctx has ended.
func (s *stream) next(ctx context.Context, block bool) bool {
	if ctx.Err() != nil {
		return false
	}
	current, changed := s.agent.hub.get()
	if current != s.session && current != s.broken {
		if block { // messages of the old session are flushed first
			s.changeSession(current)
			s.apply()
			return true
		}
		return false
	}
	if now, due := s.now(), s.machine.deadline(); !due.IsZero() && !now.Before(due) {
		s.machine.tick(now) // also when there is always something to read
		s.apply()
		return true
	}
	if s.machine.hasWork() {
		s.machine.work(s.now(), batchMessages)
		s.apply()
		return true
	}
	feed, wait, freed := s.heldBack()
	if feed {
		s.handle(*s.held)
		return true
	}

	var items <-chan feedItem
	if s.feed != nil && s.held == nil {
		items = s.feed.items
	}
	var requests <-chan struct{}
	if !s.machine.full() {
		requests = s.inbox.ready
	}
	var down <-chan struct{}
	if s.session != nil {
		down = s.session.down
	}
	if block {
		timer, stop := s.timer(wait)
		defer stop()
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		case <-down:
			s.lose(s.session.at)
		case <-freed:
		case <-timer:
			s.machine.tick(s.now())
		case it := <-items:
			s.take(it)
		case <-requests:
			s.takeRequest()
		case a := <-s.answers:
			s.takeAnswer(a)
		}
	} else {
		select {
		case it := <-items:
			s.take(it)
		case <-requests:
			s.takeRequest()
		case a := <-s.answers:
			s.takeAnswer(a)
		default:
			return false
		}
	}
	s.apply()
	return true
}

// heldBack tells whether the item that waits for room in the pool can be
// handled; if not, for how long it waits at most, and for what.
func (s *stream) heldBack() (handle bool, wait time.Duration, freed <-chan struct{}) {
	if s.held == nil {
		return false, 0, nil
	}
	if s.machine.needsOffer(&s.held.item) {
		wait, freed = s.agent.pool.room(len(s.held.item.body), s.now())
	}
	return wait == 0, wait, freed
}

// timer fires when the machine has something to do, or after wait if that is not 0.
func (s *stream) timer(wait time.Duration) (<-chan time.Time, func()) {
	if deadline := s.machine.deadline(); !deadline.IsZero() {
		if left := max(0, deadline.Sub(s.now())); wait == 0 || left < wait {
			return s.agent.options.Clock.After(left)
		}
	}
	if wait == 0 {
		return nil, func() {}
	}
	return s.agent.options.Clock.After(wait)
}

func (s *stream) take(it feedItem) {
	s.feed.budget.Release(it.cost)
	if s.feed.list && !it.ended && s.machine.needsOffer(&it.item) {
		if wait, _ := s.agent.pool.room(len(it.item.body), s.now()); wait > 0 {
			s.held = &it
			return
		}
	}
	s.handle(it)
}

// handle gives the machine what a list or watch gave.
func (s *stream) handle(it feedItem) {
	s.held = nil
	now := s.now()
	if !it.ended {
		s.status.event(now)
	}
	switch {
	case it.ended:
		list := s.feed.list
		s.stopFeeder()
		if list {
			s.metrics.lists.Observe(now.Sub(s.listing).Seconds())
			s.machine.listEnded(now, it.cursor, it.err)
			s.agent.relaxer.after(len(s.machine.objects))
		} else {
			s.machine.watchEnded(now, it.err)
		}
	case s.feed.list:
		s.metrics.event(eventListed)
		s.machine.listed(now, it.item)
	default:
		s.metrics.event(eventOf(it.typ))
		if s.machine.wantsSum(&it.item) {
			it.item.sum = fingerprintOf(it.item.body)
		}
		s.machine.changed(now, it.typ, it.cursor, it.item)
	}
	s.apply()
}

// takeRequest takes one; the batch that is being collected stays bounded.
func (s *stream) takeRequest() {
	q, ok := s.inbox.take()
	switch {
	case !ok:
	case q.batch != nil:
		if q.session == s.session {
			s.machine.reconciled(q.batch)
			s.agent.relaxer.after(len(q.batch.items))
		}
	case q.fetch:
		if q.session == s.session {
			s.send(inAnswer(getV1(s.kind, q.key), &q))
		}
	case q.session != s.session:
		s.machine.unanswered(q.key)
	default:
		s.agent.baselines.Remove(slotKey{s, q.key}) // who asks does not have it
		s.machine.requested(s.now(), q, s.agent.pool.take(s, q.key))
	}
}

func (s *stream) takeAnswer(a answer) {
	if a.err != nil && !errors.Is(a.err, synchronizer.ErrNotFound) {
		s.metrics.failed.Inc()
	}
	s.machine.readDone(s.now(), a.read, a.item, a.err)
}

// changeSession follows the hub.
func (s *stream) changeSession(to *session) {
	if s.session != nil {
		at := s.now()
		select {
		case <-s.session.down:
			at = s.session.at
		default:
		}
		s.lose(at)
	}
	if to == nil {
		return
	}
	select {
	case <-to.down:
		s.broken = to
	default:
		s.session = to
		s.machine.linkUp(s.now())
	}
}

// lose says that the session broke at the time at.
func (s *stream) lose(at time.Time) {
	s.broken, s.session = s.session, nil
	s.agent.pool.leave(s)
	s.forgetBaselines()
	s.machine.linkDown(at)
}

// apply does what the machine asks for.
func (s *stream) apply() {
	for i := 0; i < len(s.machine.effects); i++ { // an effect can lead to others
		e := s.machine.effects[i]
		s.machine.effects[i] = effect{}
		s.effect(&e)
	}
	s.machine.effects = s.machine.effects[:0]
	if cap(s.machine.effects) > 1024 {
		s.machine.effects = nil
	}
	if n := s.machine.merged; n > 0 {
		s.metrics.merged.Add(float64(n))
		s.machine.merged = 0
	}
}

func (s *stream) effect(e *effect) {
	switch e.do {
	case effectVerify:
		s.verify(e)
	case effectPut:
		s.put(e)
	case effectDelete:
		s.agent.baselines.Remove(slotKey{s, e.key})
		s.send(inAnswer(deleteV1(s.kind, e.key), e.answer))
	case effectKeep:
		s.agent.pool.keep(s, e.key, offer{digest: e.item.digest, version: e.item.version, body: e.item.body})
	case effectBody:
		s.machine.body(s.now(), e.key, s.agent.pool.take(s, e.key))
	case effectForget:
		s.agent.pool.forget(s, e.key)
	case effectRead:
		s.read(e.read)
	case effectList:
		s.listing = s.now()
		s.startFeeder(true, "")
	case effectWatch:
		s.startFeeder(false, e.cursor)
	case effectStop:
		s.stopFeeder()
	case effectDrop:
		what := s.kind.String() + " " + e.key.String()
		if e.detail != "" {
			what += ": " + e.detail
		}
		s.agent.options.Drop(e.reason, what)
	}
}

func (s *stream) stopFeeder() {
	s.held = nil
	if s.feed != nil {
		s.feed.stop()
		s.feed = nil
	}
}
