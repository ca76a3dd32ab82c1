// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"synchronizer"
	"synchronizer/internal/queue"
)

// sweepInterval is how often what has expired is removed.
const sweepInterval = time.Second

// replay decides, for each record, whether the newest connection of its cluster
// takes it now or it is kept, so that every client is told everything in the order
// in which it was received:
//
//	pump of the connection  ←  backlog of the cluster  ←  new records
//
// A new record goes past the backlog only while that is empty and the connection
// takes it. All else waits behind.
type replay struct {
	server *Server
	// now is the time that has passed here since the start: neither the time of a
	// record nor a step of the wall clock matters.
	now func() time.Duration

	// mu comes before the locks of registry and pump.
	mu       sync.Mutex
	backlog  *backlog
	received uint64
	closed   bool
}

// phase is how far a connection is with what its cluster has missed; replay.mu
// guards it.
type phase uint8

const (
	// waits: what an older connection of the cluster did not write comes first.
	waits phase = iota
	// replays: a goroutine hands it the backlog.
	replays
	// follows: the backlog is empty, new records go to it directly.
	follows
	// left: it takes nothing any more.
	left
)

// waybill is what is known of a parcel that is given back if it is not written.
type waybill struct {
	receipt
	record synchronizer.Record // as it was received; not of a kept one
	kept   *kept               // nil: it was handed down directly
}

func newReplay(s *Server, limits ReplayLimits) *replay {
	start := time.Now() // with a monotonic reading
	return &replay{server: s, now: func() time.Duration { return time.Since(start) }, backlog: newBacklog(limits)}
}

// unlock reports what was lost while mu was held.
func (p *replay) unlock() {
	lost := p.backlog.lost
	p.backlog.lost = nil
	p.mu.Unlock()
	for _, l := range lost {
		p.server.options.Drop(l.reason, l.what)
	}
}

// hand gives a record to the newest connection of its cluster, or keeps it.
func (p *replay) hand(r *synchronizer.Record, m *synchronizer.Message) {
	p.mu.Lock()
	defer p.unlock()
	p.received++
	at := receipt{at: p.now(), seq: p.received}
	c := p.server.registry.find(m.ClusterID)
	if c != nil && p.nothingBefore(c) {
		messages := c.messagesOf(m)
		if len(messages) == 0 {
			return
		}
		if ok, _ := c.offer(parcel{messages: messages, waybill: &waybill{receipt: at, record: *r}}); ok {
			p.server.metrics.downward.WithLabelValues("accepted").Inc()
			return
		}
	}
	if p.closed {
		p.backlog.lose(synchronizer.DropDisconnected, m.ClusterID, r)
		return
	}
	if p.backlog.keep(m.ClusterID, at, r, p.now()) {
		p.server.metrics.downward.WithLabelValues("retained").Inc()
	}
	if c != nil && c.phase == follows {
		p.begin(c)
	}
}

// nothingBefore tells whether a new record may go directly to the connection.
func (p *replay) nothingBefore(c *connection) bool {
	return c.phase == follows || c.phase == replays && p.backlog.clients[c.id()] == nil
}

// start lets a connection have what its cluster has missed, as soon as the client
// may be written to.
func (p *replay) start(c *connection) {
	p.mu.Lock()
	defer p.unlock()
	if c.phase == waits {
		p.begin(c)
	}
}

// begin needs the lock.
func (p *replay) begin(c *connection) {
	c.phase = replays
	c.replaying.Go(func() { p.run(c) })
}

// run hands the backlog to the connection until it is empty or the connection takes
// nothing any more.
func (p *replay) run(c *connection) {
	// Nothing is selected before the client's first frame has come, as it may take
	// minutes: a Send waits for that.
	if err := c.link.Send(c.ctx); err != nil {
		return
	}
	for {
		k := p.take(c)
		if k == nil {
			return
		}
		if err := p.handKept(c, k); err != nil {
			return
		}
	}
}

// take gives the next of the backlog. If there is none, the connection gets new
// records directly from now on.
func (p *replay) take(c *connection) *kept {
	p.mu.Lock()
	defer p.unlock()
	if c.phase != replays {
		return nil
	}
	k := p.backlog.take(c.id(), p.now())
	if k == nil {
		c.phase = follows
	}
	return k
}

// handKept waits until the connection takes the record. If it does not, the record
// waits at its place for the next one.
func (p *replay) handKept(c *connection, k *kept) error {
	r := k.record()
	m, _, err := read(&r)
	if err != nil { // impossible: it was read before it was kept
		p.server.options.Drop(queue.Reason(err), fmt.Sprintf("record for %s: %v", c.id(), err))
		p.done(k)
		return nil
	}
	messages := c.messagesOf(&m)
	if len(messages) == 0 {
		p.done(k)
		return nil
	}
	if err := c.put(c.ctx, parcel{messages: messages, waybill: &waybill{receipt: k.receipt, kept: k}}); err != nil {
		p.mu.Lock()
		defer p.unlock()
		p.backlog.idle(k)
		return err
	}
	p.server.metrics.downward.WithLabelValues("replayed").Inc()
	return nil
}

// done releases a record that was written, or never will be.
func (p *replay) done(k *kept) {
	p.mu.Lock()
	defer p.unlock()
	p.backlog.remove(k)
}

// leave takes nothing more for the connection, whose link has ended.
func (p *replay) leave(c *connection) {
	p.mu.Lock()
	defer p.unlock()
	c.phase = left
}

// giveBack keeps what a connection took and did not write, at its old place: before
// what has come since. A connection of the cluster that comes later must not have
// been started.
func (p *replay) giveBack(c *connection, parcels []parcel) {
	p.mu.Lock()
	defer p.unlock()
	for i := range parcels {
		if k := parcels[i].waybill.kept; k != nil {
			p.backlog.idle(k)
		}
	}
	for i := range parcels {
		w := parcels[i].waybill
		switch {
		case w.kept != nil:
		case p.closed:
			p.backlog.lose(synchronizer.DropDisconnected, c.id(), &w.record)
		default:
			p.backlog.keep(c.id(), w.receipt, &w.record, p.now())
		}
	}
	if p.closed {
		p.release()
	}
}

// sweep removes what has expired, every second until ctx ends.
func (p *replay) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.expire()
		case <-ctx.Done():
			return
		}
	}
}

func (p *replay) expire() {
	p.mu.Lock()
	defer p.unlock()
	p.backlog.expire(p.now())
}

// close releases the backlog and keeps nothing any more: what is being sent now is
// released when that ends.
func (p *replay) close() {
	p.mu.Lock()
	defer p.unlock()
	p.closed = true
	p.release()
}

// release needs the lock.
func (p *replay) release() {
	if n := p.backlog.clear(); n > 0 {
		p.server.options.Logger.Warn("server stops: messages that were kept for clients are released", "messages", n)
	}
}

// held is the size of the backlog, what is being replayed included.
func (p *replay) held() (messages int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.backlog.count, p.backlog.bytes
}

// register adds the gauges of the backlog.
func (p *replay) register(reg prometheus.Registerer) {
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "synchronizer_relay_replay_messages",
			Help: "Messages that are kept for clients that are not connected here, or are being replayed",
		}, func() float64 { messages, _ := p.held(); return float64(messages) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "synchronizer_relay_replay_bytes",
			Help: "Bytes of these messages, as backend.replay.maxBytes counts them",
		}, func() float64 { _, bytes := p.held(); return float64(bytes) }),
	)
}
