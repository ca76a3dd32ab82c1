// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"

	"synchronizer"
)

// timing is how the members of a group find each other.
type timing struct {
	beat     time.Duration // between two signs of life
	gone     time.Duration // a member that was silent for so long is gone
	pinTTL   time.Duration // a partition that nobody asked for records for so long is free
	handover time.Duration // how long a member may still acknowledge what it gives away
}

var defaultTiming = timing{beat: time.Second, gone: 4 * time.Second, pinTTL: 5 * time.Second, handover: 15 * time.Second}

const (
	// settle is how long a new member waits for the answers of the others before it
	// reads.
	settle = 50 * time.Millisecond
	// arrivedRoom is above all that the requests of one member can bring.
	arrivedRoom = 10 << 10
	// burst bounds the messages that are handled under one lock.
	burst = 256
)

// member is one consumer of a group that shares the partitions of out. Each
// partition is one durable consumer on the broker, which delivers to one client at
// a time: the one that it has pinned. The members tell each other that they live,
// compute from that who reads which partition, and give up the others.
type member struct {
	q       *Queue
	group   string // for the broker
	id      string
	stream  string
	inbox   string // of a partition's records: inbox.<partition>.<generation>
	alive   string // of answers to signs of life: alive.<partition>.<generation>
	news    string // subject where members tell of themselves
	arrived chan *natsgo.Msg
	wake    chan struct{} // there may be something for Next
	poked   chan struct{} // there may be something for run
	broken  chan struct{} // the connection was interrupted
	ctx     context.Context
	end     context.CancelFunc
	tasks   sync.WaitGroup
	remove  func()

	answered chan struct{} // closed when the others were heard

	mu      sync.Mutex
	others  map[string]time.Time // when another member was heard last
	settled bool                 // others may be trusted
	parts   []*part
	bySub   map[*natsgo.Subscription]*part
	ready   []delivery // for Next, from index first on
	first   int
}

// delivery is a record that waits for Next.
type delivery struct {
	part       *part
	generation uint64
	number     uint64 // in the stream
	msg        *natsgo.Msg
}

var _ synchronizer.Consumer = (*member)(nil)

func (q *Queue) newMember(ctx context.Context, group string) (synchronizer.Consumer, error) {
	q.mu.Lock()
	closed := q.closed
	q.mu.Unlock()
	switch {
	case closed:
		return nil, fmt.Errorf("joining group %q: %w", group, synchronizer.ErrClosed)
	case group == "":
		return nil, fmt.Errorf("%w: group has no name", synchronizer.ErrInvalid)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("joining group %q: %w", group, context.Cause(ctx))
	}
	inbox := natsgo.NewInbox()
	m := &member{
		q: q, group: groupName(group), id: nuid.Next(), stream: q.streamName(synchronizer.Out),
		inbox: inbox + ".r.", alive: inbox + ".a.",
		arrived: make(chan *natsgo.Msg, arrivedRoom), wake: make(chan struct{}, 1), poked: make(chan struct{}, 1), broken: make(chan struct{}, 1),
		answered: make(chan struct{}), others: map[string]time.Time{}, bySub: map[*natsgo.Subscription]*part{},
	}
	m.news = q.prefix + ".members." + m.group
	for p := range q.partitions {
		m.parts = append(m.parts, &part{
			m: m, number: p, name: "out-" + strconv.Itoa(p), consumer: m.group + "-" + strconv.Itoa(p),
			filter: q.filter(p),
		})
	}
	var makers errgroup.Group
	makers.SetLimit(8)
	for _, p := range m.parts {
		makers.Go(func() error { return p.ensureConsumer(ctx) })
	}
	if err := makers.Wait(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("joining group %q: %w", group, err)
	}
	var subs []*natsgo.Subscription
	for _, subject := range []string{m.news, m.alive + "*.*"} {
		sub, err := q.read.ChanSubscribe(subject, m.arrived)
		if err != nil {
			return nil, fmt.Errorf("joining group %q: subscribing: %w", group, err)
		}
		subs = append(subs, sub)
	}
	m.ctx, m.end = context.WithCancel(context.WithoutCancel(ctx))
	m.remove = q.addReader(m, func() { m.leave(subs) })
	m.tasks.Go(m.run)
	select {
	case <-m.answered:
		return m, nil
	case <-ctx.Done():
		m.remove()
		return nil, fmt.Errorf("joining group %q: %w", group, context.Cause(ctx))
	}
}

// groupName makes a group a part of a subject and of the names of consumers, which
// have at most 255 bytes.
func groupName(group string) string {
	if name := token(group); len(name) <= 240 {
		return name
	}
	return hashOf(group)
}

// ensureConsumer makes the durable consumer of the partition.
func (p *part) ensureConsumer(ctx context.Context) error {
	want := p.config()
	_, err := p.m.q.js.CreateConsumer(ctx, p.m.stream, want)
	if err == nil {
		return nil
	}
	// It exists with other settings, or began at a record (see beginAnew).
	made, problem := p.m.q.js.Consumer(ctx, p.m.stream, p.consumer)
	if problem != nil {
		return fmt.Errorf("creating consumer %s: %w", p.consumer, err)
	}
	is := made.CachedInfo().Config
	want.DeliverPolicy, want.OptStartSeq = is.DeliverPolicy, is.OptStartSeq
	if _, err := p.m.q.js.UpdateConsumer(ctx, p.m.stream, want); err != nil {
		return fmt.Errorf("consumer %s exists with settings that cannot be changed, remove it: %w", p.consumer, err)
	}
	return nil
}

func (p *part) config() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:           p.consumer,
		FilterSubject:     p.filter,
		DeliverPolicy:     jetstream.DeliverAllPolicy,
		AckPolicy:         jetstream.AckAllPolicy,
		AckWait:           p.m.q.ackWait,
		MaxDeliver:        -1,
		MaxAckPending:     mostUnacknowledged,
		MaxWaiting:        64,
		InactiveThreshold: forgetGroupAfter,
		PriorityPolicy:    jetstream.PriorityPolicyPinned,
		PriorityGroups:    []string{priorityGroup},
		PinnedTTL:         p.m.q.timing.pinTTL,
	}
}

// run owns the state of the partitions, but for what Next and Ack note there.
func (m *member) run() {
	beat := time.NewTicker(m.q.timing.beat)
	defer beat.Stop()
	answered := time.NewTimer(settle)
	defer answered.Stop()
	m.say("join")
	for {
		select {
		case <-m.ctx.Done():
			return
		case msg := <-m.arrived:
			m.mu.Lock()
			m.handle(msg)
		burst:
			for range burst {
				select {
				case msg := <-m.arrived:
					m.handle(msg)
				default:
					break burst
				}
			}
			m.refill()
			m.mu.Unlock()
		case <-m.poked:
			m.mu.Lock()
			m.settleDrains()
			m.refill()
			m.mu.Unlock()
		case <-answered.C:
			m.mu.Lock()
			m.settled = true
			m.assign()
			m.mu.Unlock()
			close(m.answered)
		case <-m.broken:
			m.say("join") // others may have come and gone
			m.mu.Lock()
			for _, p := range m.parts {
				p.doubt()
			}
			m.refill()
			m.mu.Unlock()
		case <-beat.C:
			m.say("here")
			m.mu.Lock()
			m.beat()
			m.mu.Unlock()
		}
	}
}

// say tells the others about this member.
func (m *member) say(what string) { _ = m.q.read.Publish(m.news, []byte(what+" "+m.id)) }

// heard notes what another member said. Called with mu held.
func (m *member) heard(text string) {
	what, id, ok := strings.Cut(text, " ")
	if !ok || id == m.id || id == "" {
		return
	}
	_, known := m.others[id]
	switch what {
	case "leave":
		delete(m.others, id)
		if known {
			m.assign()
		}
		return
	case "join":
		m.say("here")
	case "here":
	default:
		return
	}
	m.others[id] = time.Now()
	if !known {
		m.assign()
	}
}

// assign starts and stops reading partitions after the members changed. Called
// with mu held.
func (m *member) assign() {
	if !m.settled {
		return
	}
	ids := make([]string, 0, len(m.others)+1)
	ids = append(ids, m.id)
	for id := range m.others {
		ids = append(ids, id)
	}
	for p, owner := range share(ids, len(m.parts)) {
		if owner == m.id {
			m.parts[p].begin()
		} else {
			m.parts[p].giveUp()
		}
	}
	m.settleDrains()
	m.refill()
}

// beat does what time brings. Called with mu held.
func (m *member) beat() {
	now, changed := time.Now(), false
	for id, at := range m.others {
		if now.Sub(at) > m.q.timing.gone {
			delete(m.others, id)
			changed = true
		}
	}
	if changed {
		m.assign()
	}
	for _, p := range m.parts {
		p.beat(now)
	}
	m.settleDrains()
	m.refill()
}

// handle takes what has arrived. Called with mu held.
func (m *member) handle(msg *natsgo.Msg) {
	if p := m.bySub[msg.Sub]; p != nil {
		p.handle(msg)
		return
	}
	switch {
	case msg.Subject == m.news:
		m.heard(string(msg.Data))
	case strings.HasPrefix(msg.Subject, m.alive) && msg.Header.Get("Status") == statusPin:
		number, generation, _ := strings.Cut(msg.Subject[len(m.alive):], ".")
		p, err := strconv.Atoi(number)
		if err == nil && p < len(m.parts) && generation == strconv.FormatUint(m.parts[p].generation, 10) {
			m.parts[p].lose()
		}
	}
}

func (m *member) refill() {
	mine := 0
	for _, p := range m.parts {
		if p.state == reading || p.state == waiting {
			mine++
		}
	}
	for _, p := range m.parts {
		p.refill(mine)
	}
}

func (m *member) settleDrains() {
	for _, p := range m.parts {
		p.settleDrain()
	}
}

// reconnected implements reader.
func (m *member) reconnected() { signal(m.broken) }

// signal leaves a value in a channel with room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close implements synchronizer.Consumer. What is not acknowledged goes to another
// member, or to the next.
func (m *member) Close() error {
	m.remove()
	return nil
}

func (m *member) leave(subs []*natsgo.Subscription) {
	m.end()
	m.tasks.Wait()
	m.mu.Lock()
	var release errgroup.Group
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), leaveTimeout)
	defer cancel()
	connected := m.q.read.IsConnected() // else the partitions are free when their pins end
	for _, p := range m.parts {
		state, pin := p.state, p.pin
		p.stop()
		p.state = off
		if state != off && connected { // after the requests are withdrawn
			release.Go(func() error { return p.release(ctx, pin) })
		}
	}
	m.ready, m.first = nil, 0
	m.mu.Unlock()
	for _, sub := range subs {
		_ = sub.Unsubscribe()
	}
	_ = release.Wait()
	if !connected {
		return
	}
	m.say("leave")
	_ = m.q.read.FlushWithContext(ctx)
}
