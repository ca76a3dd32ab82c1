// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/google/uuid"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/internal/telemetry/traceparent"
)

// A client's cluster and the store are compared by a chain of records: the server
// asks for it (EventReconciliation without objects, here), the ingester answers
// with all that it knows of a kind, the server hands that to the client as one
// batch (downward.go), and the client says what differs.

// repairAfter is how long after something was lost a reconciliation is asked for,
// or after the connect that follows.
const repairAfter = 30 * time.Second

// jitterDivisor: up to a fifth of a delay is added, to spread reconnect bursts.
const jitterDivisor = 5

var firstReconciling = semver.MustParse("0.0.57")

// reconciles tells whether clients of this version understand reconciliations.
func reconciles(version string) bool {
	number, ok := strings.CutPrefix(version, "v")
	if !ok {
		return false
	}
	v, err := semver.StrictNewVersion(number)
	return err == nil && !v.LessThan(firstReconciling)
}

// request is when a connection asks for a reconciliation: once some time after it was
// accepted, and sooner when something was lost. It costs a timer, and a goroutine only
// while it is being published.
type request struct {
	mu     sync.Mutex
	timer  *time.Timer        // after the connect; nil: nothing is pending
	due    time.Time          // of timer, without jitter
	repair *time.Timer        // the same for what was lost
	over   bool               // cancelled: nothing is asked for any more
	stop   context.CancelFunc // of the one that is being published; nil: none is
	asking sync.WaitGroup     // Add only under mu and unless over
}

// cancel ends what is pending and what is being tried. It is final.
func (r *request) cancel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, timer := range []**time.Timer{&r.timer, &r.repair} {
		if *timer != nil {
			(*timer).Stop()
			*timer = nil
		}
	}
	if r.stop != nil {
		r.stop()
	}
}

// cancelled tells whether cancel was called.
func (r *request) cancelled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// wait returns when nothing runs any more; cancel comes before it.
func (r *request) wait() { r.asking.Wait() }

// schedule makes the appointment of a connection that was just accepted.
func (c *connection) schedule() {
	if after := c.server.options.ReconcileAfter; after > 0 {
		c.appoint(&c.request.timer, after)
	}
	if c.server.debts.has(c.id()) {
		c.repair()
	}
}

// repair asks for a reconciliation because something was lost, unless that will be
// asked for as soon.
func (c *connection) repair() {
	r := &c.request
	r.mu.Lock()
	soon := r.timer != nil && !r.due.After(time.Now().Add(repairAfter))
	r.mu.Unlock()
	if !soon {
		c.appoint(&r.repair, repairAfter)
	}
}

// appoint asks for a reconciliation after the delay and a jitter, unless that is
// pending. The delay must have room for it.
func (c *connection) appoint(timer **time.Timer, delay time.Duration) {
	if !reconciles(c.hello.SynchronizerVersion) {
		return
	}
	r := &c.request
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || *timer != nil {
		return
	}
	if timer == &r.timer {
		r.due = time.Now().Add(delay)
	}
	*timer = time.AfterFunc(delay+rand.N(delay/jitterDivisor+1), func() { c.askToReconcile(timer) })
}

// askToReconcile publishes the request behind what the client has said so far.
func (c *connection) askToReconcile(timer **time.Timer) {
	c.request.mu.Lock()
	*timer = nil
	if c.request.over || c.request.stop != nil {
		c.request.mu.Unlock()
		return
	}
	ctx, stop := context.WithCancel(c.ctx)
	c.request.stop = stop
	c.request.asking.Add(1)
	c.request.mu.Unlock()
	defer c.request.asking.Done()
	defer func() {
		c.request.mu.Lock()
		defer c.request.mu.Unlock()
		c.request.stop = nil
		stop()
	}()

	r, err := c.server.encode(&synchronizer.Message{
		Event: synchronizer.EventReconciliation, MsgID: uuid.NewString(), ClusterID: c.id(), ServerInitiated: true,
	})
	if err == nil {
		err = c.up.put(ctx, r, r.Size())
	}
	if err == nil {
		c.server.debts.settle(c.id()) // until countLost says that the queue refused it
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, errEnded) {
		c.server.options.Logger.Warn("asking for a reconciliation", "account", c.id().Account, "cluster", c.id().Cluster, "error", err)
	}
}

// withoutCancelled leaves out requests that are cancelled and have not been given to
// the queue yet: what they would have repaired is owed to the next connection.
func (c *connection) withoutCancelled(batch []synchronizer.Record) []synchronizer.Record {
	if !c.request.cancelled() || !slices.ContainsFunc(batch, isRequest) {
		return batch
	}
	c.server.debts.add(c.id())
	return slices.DeleteFunc(slices.Clone(batch), isRequest)
}

func isRequest(r synchronizer.Record) bool {
	return r.Property(queue.PropertyEvent) == synchronizer.EventReconciliation.String()
}

// mostDebts bounds the clusters that are remembered.
const mostDebts = 10_000

// debts are the clusters of which the queue refused something: they reconcile
// after their next connect, whatever is configured.
type debts struct {
	mu       sync.Mutex
	clusters map[synchronizer.ClusterID]struct{}
}

func (d *debts) add(id synchronizer.ClusterID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clusters == nil {
		d.clusters = map[synchronizer.ClusterID]struct{}{}
	}
	if len(d.clusters) < mostDebts {
		d.clusters[id] = struct{}{}
	}
}

func (d *debts) settle(id synchronizer.ClusterID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.clusters, id)
}

func (d *debts) has(id synchronizer.ClusterID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.clusters[id]
	return ok
}

// about names a message that goes down, for people.
func about(m *synchronizer.Message) string {
	if known, ok := m.Known[m.Kind]; ok && m.Event == synchronizer.EventReconciliation {
		return traceparent.Named(fmt.Sprintf("%s %s %s (%d objects)", m.Event, m.ClusterID, m.Kind, len(known)), m.TraceParent)
	}
	return traceparent.Named(m.Event.String()+" "+m.Key().String(), m.TraceParent)
}
