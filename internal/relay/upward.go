// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"synchronizer"
	"synchronizer/internal/link"
	"synchronizer/internal/queue"
	"synchronizer/internal/telemetry/traceparent"
)

var errPanic = errors.New("a frame could not be handled")

// lively is how long a client that has said something is waited for as one that
// says more.
const lively = 2 * time.Second

// receive carries what the client says to the queue until the link ends, and calls
// ended then, in whatever goroutine. When the queue takes no more, it stops reading,
// and the client is slowed down.
//
// Most clients are idle most of the time. A goroutine keeps the stack that it needed
// once, so what is deep ends when a client is not lively any more, and another one,
// of 2 KiB, waits.
func (c *connection) receive(ended func(error)) {
	from := link.AsPatient(c.link)
	if from == nil {
		from = impatient{c.link}
	}
	go c.await(from, ended)
}

func (c *connection) await(from link.Patient, ended func(error)) {
	from.Await()
	go c.work(from, ended)
}

func (c *connection) work(from link.Patient, ended func(error)) {
	for {
		spoke, err := c.carry(c.ctx, from)
		if err != nil {
			ended(err)
			return
		}
		// A Ping says that there was nothing to say. To be woken costs an idle server
		// more than what it does then, so nobody waits for what may come behind it.
		if !spoke || !from.AwaitFor(lively) {
			go c.await(from, ended)
			return
		}
	}
}

// impatient waits in Receive.
type impatient struct{ synchronizer.Link }

// Await and AwaitFor implement link.Patient.
func (impatient) Await()                      {}
func (impatient) AwaitFor(time.Duration) bool { return true }

// Poll implements link.Patient. The end of the link is what ends it: serve, or who
// replaces it, closes it. A context that can end would cost a registration for each
// message.
func (l impatient) Poll(m *synchronizer.Message) (ok bool, err error) {
	*m, err = l.Receive(context.Background())
	return err == nil, err
}

// messages are reused, since their address goes to the encoder.
var messages = sync.Pool{New: func() any { return new(synchronizer.Message) }}

// carry carries one message, if the next frame is one (spoke). A fault of ours that one
// client finds ends its connection, never those of all others with the process.
func (c *connection) carry(ctx context.Context, from link.Patient) (spoke bool, err error) {
	m := messages.Get().(*synchronizer.Message)
	defer func() {
		if fault := recover(); fault != nil {
			c.server.options.Logger.Error("panic while a frame was handled: the connection ends; please report it",
				"account", c.id().Account, "cluster", c.id().Cluster, "panic", fault, "stack", string(debug.Stack()))
			err = errPanic
			return // the message may be in somebody's hands
		}
		*m = synchronizer.Message{} // what it holds is done with
		messages.Put(m)
	}()
	ok, err := from.Poll(m)
	if err != nil || !ok {
		return false, err
	}
	c.unheard.hears()
	if m.Event != synchronizer.EventBatch {
		return true, c.forward(ctx, m, m.MsgID, m.Depth)
	}
	// Items stand for themselves, under MsgID, Depth and trace of their batch. All
	// of them are given to forward, also after an error, so that each is counted.
	for i := range m.Items {
		m.Items[i].TraceParent = m.TraceParent
		if e := c.forward(ctx, &m.Items[i], m.MsgID, m.Depth); e != nil {
			err = e
		}
	}
	return true, err
}

// forward stamps one message and hands it to the publisher.
func (c *connection) forward(ctx context.Context, m *synchronizer.Message, msgID string, depth int) error {
	m.ClusterID, m.MsgID, m.Depth = c.id(), msgID, depth+1
	if !c.pass(m) {
		return nil
	}
	m.Source, m.Seq = c.source, c.seq+1
	r, err := c.server.encoder.Encode(m, queue.Extra{Link: "v1"})
	if err != nil {
		c.server.options.Drop(synchronizer.DropMalformed, fmt.Sprintf("%s from %s: %v", m.Event, c.id(), err))
		return nil
	}
	c.seq++
	if err := c.up.put(ctx, r, r.Size()); err != nil {
		c.rejected = append(c.rejected, r)
		return err
	}
	return nil
}

// publish is the run function of the upward pump. It fails, and with it the
// connection, when the queue has refused for publishTimeout: the client then
// reconnects with back-off.
func (c *connection) publish(batch []synchronizer.Record) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.server.publishTimeout)
	defer cancel()
	if batch = c.withoutCancelled(batch); len(batch) == 0 {
		return nil
	}
	err := c.server.publish(ctx, batch)
	if errors.Is(err, synchronizer.ErrTooLarge) {
		for _, i := range tooLarge(batch, err) {
			c.server.options.Drop(synchronizer.DropTooLarge, fmt.Sprintf("%s, %d bytes: %v", lostName(c.id(), &batch[i]), batch[i].Size(), err))
		}
		return nil
	}
	if err != nil {
		_ = c.link.Close(statusTryAgainLater, "queue is away") // before anybody else closes it
	}
	return err
}

// countLost counts and names what was read from the client and is not in the
// queue, as far as is known.
func (c *connection) countLost(failed, waiting []synchronizer.Record, err error) {
	waiting = append(waiting, c.rejected...)
	c.server.metrics.countProduced(c.server.options.QueueName, "error", waiting) // publish has counted failed
	lost := append(failed, waiting...)
	if len(lost) == 0 {
		return
	}
	c.server.debts.add(c.id())
	for i := range lost {
		c.server.options.Drop(synchronizer.DropRefused, lostName(c.id(), &lost[i]))
	}
	c.server.options.Logger.Error("the queue did not take what a client had sent",
		"account", c.id().Account, "cluster", c.id().Cluster, "connection", c.source, "records", len(lost), "error", err)
}

// lostName is how a record that is not in the queue is named.
func lostName(id synchronizer.ClusterID, r *synchronizer.Record) string {
	what := fmt.Sprintf("%s %s %s %s/%s", r.Property(queue.PropertyEvent), id,
		r.Property(queue.PropertyResource), r.Property(queue.PropertyNamespace), r.Property(queue.PropertyName))
	return traceparent.Named(what, r.Property(queue.PropertyTraceParent))
}

// tooLarge are the records of a batch that the queue refused for their size alone; the
// others are in it. An adapter that does not say which has refused one, the largest.
func tooLarge(records []synchronizer.Record, err error) []int {
	if e, ok := errors.AsType[*synchronizer.TooLargeError](err); ok {
		return e.At
	}
	largest := 0
	for i := range records {
		if records[i].Size() > records[largest].Size() {
			largest = i
		}
	}
	return []int{largest}
}
