// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/internal/wire"
)

// tail carries records of In to their clients until ctx ends. A record that
// cannot be read, or is for nobody here, is counted and never fatal.
func (s *Server) tail(ctx context.Context, t synchronizer.Tail) error {
	policy := backoff.NewExponentialBackOff()
	policy.MaxInterval = 10 * time.Second
	for {
		records, err := t.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, synchronizer.ErrClosed):
			return err
		case err != nil:
			s.options.Logger.Warn("reading from the queue, trying again", "error", err)
			select {
			case <-time.After(policy.NextBackOff()):
			case <-ctx.Done():
			}
			continue
		}
		policy.Reset()
		for i := range records {
			s.dispatch(&records[i])
		}
	}
}

// dispatch hands one record to the newest connection of its cluster.
func (s *Server) dispatch(r *synchronizer.Record) {
	if queue.FromServer(r) {
		return // our own, on a topic that both directions share
	}
	if s.listForNobody(r) {
		s.metrics.downward.WithLabelValues("not_connected_here").Inc()
		return
	}
	m, err := queue.Decode(r)
	if partly, ok := errors.AsType[*queue.PartialError](err); ok && len(m.Known) > 0 {
		for _, cause := range partly.Left {
			s.options.Drop(synchronizer.DropMalformed, fmt.Sprintf("a part of a record for %s: %v", r.Key, cause))
		}
		err = nil
	}
	if err != nil {
		s.options.Drop(queue.Reason(err), fmt.Sprintf("record for %s: %v", r.Key, err))
		return
	}
	switch {
	case m.Event == synchronizer.EventUnknown:
		s.options.Drop(synchronizer.DropUnknownEvent, fmt.Sprintf("record %q for %s", r.Property(queue.PropertyEvent), r.Key))
		return
	case m.Event == synchronizer.EventIngesterPresent:
		s.ingesterSeen.Store(s.options.Now().UnixNano())
		return
	case m.Event == synchronizer.EventReconciliation && m.Known != nil:
	case !m.Event.AboutObject():
		s.options.Drop(synchronizer.DropUnsupported, fmt.Sprintf("record %s for %s", m.Event, r.Key))
		return
	}
	c := s.registry.find(m.ClusterID)
	if c == nil {
		s.metrics.downward.WithLabelValues("not_connected_here").Inc()
		return
	}
	m.Depth++
	if m.Depth > synchronizer.MaxDepth {
		s.options.Drop(synchronizer.DropTooDeep, about(&m))
		return
	}
	if m.Event == synchronizer.EventReconciliation {
		c.handDownLists(&m)
		return
	}
	c.handDown(m, c.down.offer)
}

// listForNobody spares the decoding of a large record that is for nobody here.
func (s *Server) listForNobody(r *synchronizer.Record) bool {
	return r.Property(queue.PropertyEvent) == synchronizer.EventReconciliation.String() && s.registry.find(synchronizer.ClusterID{
		Account: r.Property(queue.PropertyAccount), Cluster: r.Property(queue.PropertyCluster),
	}) == nil
}

// handDown gives a message to the writer. What has no room is lost, and a
// reconciliation makes up for it.
func (c *connection) handDown(m synchronizer.Message, offer func(synchronizer.Message, int) (bool, error)) {
	switch ok, err := offer(m, m.Size()); {
	case err != nil:
		c.server.options.Drop(synchronizer.DropDisconnected, about(&m))
	case !ok:
		c.server.options.Drop(synchronizer.DropBacklog, about(&m))
		c.reconcileIn(repairAfter)
	default:
		c.server.metrics.downward.WithLabelValues("accepted").Inc()
	}
}

// handDownLists makes a message of each kind that a reconciliation lists, all with
// its MsgID. They stay lists of known objects, which take a fifth of the memory of
// a batch, until they are written. Empty lists are refused by clients in the field
// and say nothing.
func (c *connection) handDownLists(m *synchronizer.Message) {
	if !reconciles(c.hello.SynchronizerVersion) {
		c.server.options.Drop(synchronizer.DropUnsupported, about(m)+": the client is too old")
		return
	}
	kinds := slices.SortedFunc(maps.Keys(m.Known), func(a, b synchronizer.Kind) int { return strings.Compare(a.String(), b.String()) })
	for _, kind := range kinds {
		list := *m
		list.Kind, list.Known = kind, map[synchronizer.Kind][]synchronizer.KnownObject{kind: m.Known[kind]}
		if len(m.Known[kind]) == 0 {
			c.server.options.Drop(synchronizer.DropUnsupported, about(&list))
			continue
		}
		c.handDown(list, c.down.offerBeyond)
	}
}

// batchOf is the batch that a client in the field understands: the items have
// neither MsgID nor depth of their own.
func batchOf(m *synchronizer.Message) synchronizer.Message {
	known := m.Known[m.Kind]
	batch := synchronizer.Message{
		Event: synchronizer.EventBatch, BatchType: wire.Reconciliation, Depth: m.Depth, MsgID: m.MsgID, Kind: m.Kind,
		ClusterID: m.ClusterID, Items: make([]synchronizer.Message, len(known)),
	}
	for i := range known {
		batch.Items[i] = synchronizer.Message{
			Event: synchronizer.EventVerify, Kind: m.Kind, Namespace: known[i].Namespace, Name: known[i].Name,
			ResourceVersion: known[i].ResourceVersion, Checksum: known[i].Checksum,
		}
	}
	return batch
}

// send is the run function of the downward pump. Lists become batches one at a
// time.
func (c *connection) send(batch []synchronizer.Message) error {
	whole := batch
	for len(batch) > 0 {
		n := slices.IndexFunc(batch, func(m synchronizer.Message) bool { return len(m.Known) > 0 })
		var err error
		switch n {
		case -1:
			err = c.write(batch...)
			n = len(batch)
		case 0:
			if err = c.write(batchOf(&batch[0])); err == nil {
				batch[0].Known = nil // not kept until the others are written
			}
			n = 1
		default:
			err = c.write(batch[:n]...)
		}
		if err != nil {
			return err
		}
		batch = batch[n:]
	}
	c.wrote(whole)
	return nil
}

// write fails when the connection has ended. A message that the link cannot carry
// was counted by it and ends nothing.
func (c *connection) write(msgs ...synchronizer.Message) error {
	err := c.link.Send(c.ctx, msgs...)
	if errors.Is(err, synchronizer.ErrClosed) || errors.Is(err, synchronizer.ErrDisconnected) {
		return err
	}
	return nil
}

// dropUnsent counts what was accepted for the client and may not have reached it.
func (c *connection) dropUnsent(failed, waiting []synchronizer.Message) {
	for _, list := range [][]synchronizer.Message{failed, waiting} {
		for i := range list {
			c.server.options.Drop(synchronizer.DropDisconnected, about(&list[i]))
		}
	}
}
