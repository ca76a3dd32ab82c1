// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	priorityGroup = "members"
	statusPin     = "423"
	pinHeader     = "Nats-Pin-Id"
	leaveTimeout  = 2 * time.Second
)

type partState uint8

const (
	off      partState = iota
	waiting            // asks, has no pin
	checking           // may have missed records: what arrives is held
	reading            // every record that it gets follows the one before
	renewing           // makes the broker begin anew behind the last acknowledgement
	draining           // goes to another member as soon as all is acknowledged
)

// part is one partition as a member sees it. Under the member's mutex.
//
// The broker numbers what it delivers, repetitions too, and an acknowledgement
// stands for all before it. So a member may acknowledge only what it got without a
// gap, from the first delivery after the last acknowledgement on. Whenever that is
// in doubt (another member had the partition, the connection was interrupted, a
// number is missing) it compares with the broker, and has the broker begin anew if
// they differ.
type part struct {
	m        *member
	number   int
	name     string // as Record.Partition
	consumer string // on the broker
	filter   string

	state partState
	sub   *natsgo.Subscription
	pin   string
	next  uint64 // number of the next delivery
	since uint64 // number of the first delivery under this pin
	held  []delivery

	// generation counts subscriptions: what arrived for an earlier one is dropped.
	// epoch counts the times when returned records were lost to this member: an
	// acknowledgement of an earlier one is left out.
	generation, epoch uint64

	left, got int  // of the open request
	room      int  // bytes that it may still bring; 0: no limit
	single    bool // the next record is above the limit of bytes
	buffered  int  // waiting for Next
	bytes     int
	heard     time.Time
	asked     time.Time
	deadline  time.Time // of draining
	returned  point     // the last record that Next returned
	acked     uint64    // number in the stream
}

// point is up to where a batch goes in one partition.
type point struct {
	part   *part
	epoch  uint64
	number uint64 // in the stream
	reply  string // acknowledges it
}

// begin starts reading the partition.
func (p *part) begin() {
	switch p.state {
	case off:
		p.start(waiting)
	case draining:
		p.renew()
	}
}

// start subscribes. The next refill asks for records.
func (p *part) start(state partState) {
	p.stop()
	sub, err := p.m.q.read.ChanSubscribe(p.m.inbox+strconv.Itoa(p.number)+"."+strconv.FormatUint(p.generation, 10), p.m.arrived)
	if err != nil { // the connection is closed for good
		p.state = off
		return
	}
	p.sub, p.state, p.heard = sub, state, time.Now()
	p.m.bySub[sub] = p
	if state == waiting {
		p.lookForLeftovers()
	}
}

// lookForLeftovers begins anew if a member that is gone has left records without
// acknowledgement: the broker alone would deliver them only after AckWait.
func (p *part) lookForLeftovers() {
	generation := p.generation
	p.task(func(ctx context.Context) bool {
		made, err := p.m.q.js.Consumer(ctx, p.m.stream, p.consumer)
		p.m.mu.Lock()
		defer p.m.mu.Unlock()
		switch {
		case p.state != waiting || p.generation != generation:
			return true
		case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
			p.renew()
			return true
		case err != nil:
			return false
		}
		info := made.CachedInfo()
		switch {
		case info.NumAckPending == 0:
			return true
		case pinnedBySomebody(info):
			return false // it may acknowledge yet
		}
		p.renew()
		return true
	})
}

func pinnedBySomebody(info *jetstream.ConsumerInfo) bool {
	for _, g := range info.PriorityGroups {
		if g.PinnedClientID != "" {
			return true
		}
	}
	return false
}

// stop unsubscribes, which withdraws the open request, and drops what Next has not
// returned.
func (p *part) stop() {
	if p.sub != nil {
		delete(p.m.bySub, p.sub)
		_ = p.sub.Unsubscribe()
		p.sub = nil
	}
	p.generation++
	p.held, p.left, p.got, p.single, p.buffered, p.bytes = nil, 0, 0, false, 0, 0
}

// forget gives up what was returned and not acknowledged.
func (p *part) forget() {
	p.epoch++
	p.returned, p.acked = point{}, 0
}

// lose notes that another member may read the partition.
func (p *part) lose() {
	p.pin = ""
	p.forget()
	if p.state == draining || p.state == off {
		p.stop()
		p.state = off
		return
	}
	p.start(waiting)
}

// giveUp stops reading; the pin is kept until the caller has acknowledged what it
// got, or for a while.
func (p *part) giveUp() {
	if p.state == off || p.state == draining {
		return
	}
	p.stop()
	p.state, p.deadline = draining, time.Now().Add(p.m.q.timing.handover)
}

func (p *part) settleDrain() {
	if p.state != draining || p.returned.number > p.acked && time.Now().Before(p.deadline) {
		return
	}
	pin := p.pin
	p.state, p.pin = off, ""
	p.forget()
	p.task(func(ctx context.Context) bool {
		_ = p.release(ctx, pin) // else it is free when the pin ends
		return true
	})
}

// task runs f until it says that it is done.
func (p *part) task(f func(context.Context) (done bool)) {
	p.m.tasks.Go(func() {
		for !f(p.m.ctx) {
			select {
			case <-p.m.ctx.Done():
				return
			case <-time.After(lostPause):
			}
		}
	})
}

// release makes the partition free for others at once. The broker may pin a request
// that was withdrawn, and wait for it; being asked about the consumer it looks after
// its requests first.
func (p *part) release(ctx context.Context, pin string) error {
	what, body := "INFO", ""
	if pin != "" {
		what, body = "UNPIN", `{"group":"`+priorityGroup+`"}`
	}
	_, err := p.m.q.read.RequestWithContext(ctx, "$JS.API.CONSUMER."+what+"."+p.m.stream+"."+p.consumer, []byte(body))
	return err
}

// doubt compares with the broker after the connection was interrupted.
func (p *part) doubt() {
	switch {
	case p.state == waiting:
		p.left, p.heard = 0, time.Now()
		p.lookForLeftovers()
	case p.state == checking:
		p.renew()
	case p.state == reading:
		p.state, p.left, p.heard = checking, 0, time.Now()
		p.check(func(info *jetstream.ConsumerInfo) bool { return info.Delivered.Consumer+1 == p.next })
	}
}

// check goes on reading if the broker agrees, and begins anew if not.
func (p *part) check(agrees func(*jetstream.ConsumerInfo) bool) {
	generation := p.generation
	p.task(func(ctx context.Context) bool {
		made, err := p.m.q.js.Consumer(ctx, p.m.stream, p.consumer)
		p.m.mu.Lock()
		defer p.m.mu.Unlock()
		if p.state != checking || p.generation != generation {
			return true
		}
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
			p.renew()
		case err != nil:
			return false
		case !agrees(made.CachedInfo()):
			p.renew()
		default:
			p.state = reading
			held := p.held
			p.held = nil
			for _, d := range held {
				p.m.deliver(d)
			}
			signal(p.m.poked)
		}
		return true
	})
}

// renew makes the broker deliver again what is not acknowledged, in order.
func (p *part) renew() {
	p.stop()
	p.forget()
	p.state = renewing
	generation, pin := p.generation, p.pin
	p.task(func(ctx context.Context) bool {
		again, err := p.beginAnew(ctx, pin)
		p.m.mu.Lock()
		defer p.m.mu.Unlock()
		if p.state != renewing || p.generation != generation {
			return true
		}
		if err != nil {
			if ctx.Err() == nil {
				p.m.q.logger.Debug("partition is not read", "consumer", p.consumer, "error", err)
			}
			return false
		}
		if pin == "" || !again {
			p.pin = ""
			p.start(waiting)
		} else {
			p.start(reading)
			p.next = 1
		}
		signal(p.m.poked)
		return true
	})
}

// beginAnew resets the consumer, or makes it if it is gone; kept tells that it is
// the same, with its pin. Without a pin it leaves a consumer alone that another
// member has.
func (p *part) beginAnew(ctx context.Context, pin string) (kept bool, err error) {
	q := p.m.q
	stream, err := q.js.Stream(ctx, p.m.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, q.ensureStreams(ctx, q.js)
	}
	if err != nil {
		return false, fmt.Errorf("reading stream: %w", err)
	}
	made, err := stream.Consumer(ctx, p.consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, p.ensureConsumer(ctx)
	}
	if err != nil {
		return false, fmt.Errorf("reading consumer: %w", err)
	}
	if pin == "" && pinnedBySomebody(made.CachedInfo()) {
		return false, nil
	}
	if !q.cannotReset {
		_, err = stream.ResetConsumer(ctx, p.consumer)
		if !errors.Is(err, natsgo.ErrNoResponders) {
			return err == nil, err
		}
	}
	// An older server cannot reset: a new consumer takes the place of this one.
	config := p.config()
	config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, made.CachedInfo().AckFloor.Stream+1
	if err := stream.DeleteConsumer(ctx, p.consumer); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, fmt.Errorf("removing consumer: %w", err)
	}
	_, err = stream.CreateConsumer(ctx, config)
	return false, err
}
