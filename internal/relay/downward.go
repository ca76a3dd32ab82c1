// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"synchronizer"
	"synchronizer/internal/link"
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
		s.dispatchAll(records)
	}
}

// dispatchAll hands over records in their order, those of different clusters by
// several workers. It returns when all are handed over, so nothing is ever waiting.
func (s *Server) dispatchAll(records []synchronizer.Record) {
	workers := min(s.workers(), len(records))
	if workers <= 1 {
		for i := range records {
			s.dispatch(&records[i])
		}
		return
	}
	seed := maphash.MakeSeed()
	shares := make([][]*synchronizer.Record, workers)
	for i := range records {
		worker := maphash.Comparable(seed, clusterOf(&records[i])) % uint64(workers)
		shares[worker] = append(shares[worker], &records[i])
	}
	var group sync.WaitGroup
	for _, share := range shares {
		if len(share) > 0 {
			group.Go(func() {
				for _, r := range share {
					s.dispatch(r)
				}
			})
		}
	}
	group.Wait()
}

// workers is 1 when replay is on, as in the field: the order of reception is that
// of the reader.
func (s *Server) workers() int {
	if s.replay != nil {
		return 1
	}
	return s.options.Workers
}

// clusterOf is who a record is for: the properties decide.
func clusterOf(r *synchronizer.Record) synchronizer.ClusterID {
	return synchronizer.ClusterID{Account: r.Property(queue.PropertyAccount), Cluster: r.Property(queue.PropertyCluster)}
}

// dispatch hands one record to the newest connection of its cluster, or keeps it
// for the next.
func (s *Server) dispatch(r *synchronizer.Record) {
	if queue.FromServer(r) {
		return // our own, on a topic that both directions share
	}
	if s.listForNobody(r) {
		s.metrics.downward.WithLabelValues("not_connected_here").Inc()
		return
	}
	m, left, err := read(r)
	for _, cause := range left {
		s.options.Drop(synchronizer.DropMalformed, fmt.Sprintf("a part of a record for %s: %v", r.Key, cause))
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
		s.ingesterSeen.Store(int64(s.elapsed()))
		return
	case m.Event == synchronizer.EventReconciliation && m.Known != nil:
	case !m.Event.AboutObject():
		s.options.Drop(synchronizer.DropUnsupported, fmt.Sprintf("record %s for %s", m.Event, r.Key))
		return
	}
	if s.replay == nil && s.registry.find(m.ClusterID) == nil {
		s.metrics.downward.WithLabelValues("not_connected_here").Inc()
		return
	}
	if m.Depth > synchronizer.MaxDepth {
		s.options.Drop(synchronizer.DropTooDeep, about(&m))
		return
	}
	s.hand(r, &m)
}

// read decodes a record and counts the hop. Left are parts that could not be read
// of a message that was.
func read(r *synchronizer.Record) (m synchronizer.Message, left []error, err error) {
	m, err = queue.DecodeDownward(r)
	if partly, ok := errors.AsType[*queue.PartialError](err); ok && len(m.Known) > 0 {
		left, err = partly.Left, nil
	}
	m.Depth++
	return m, left, err
}

// listForNobody spares the decoding of a large record that is for nobody here.
func (s *Server) listForNobody(r *synchronizer.Record) bool {
	return s.replay == nil && r.Property(queue.PropertyEvent) == synchronizer.EventReconciliation.String() &&
		s.registry.find(clusterOf(r)) == nil
}

// hand gives a message to the newest connection of its cluster. Without replay,
// what has no room there is lost, and a reconciliation makes up for it.
func (s *Server) hand(r *synchronizer.Record, m *synchronizer.Message) {
	if s.replay != nil {
		s.replay.hand(r, m)
		return
	}
	c := s.registry.find(m.ClusterID)
	if c == nil { // it has just left
		s.metrics.downward.WithLabelValues("not_connected_here").Inc()
		return
	}
	messages := c.messagesOf(m)
	if len(messages) == 0 {
		return
	}
	lost := synchronizer.DropBacklog
	ok, err := c.offer(parcel{messages: messages})
	switch {
	case ok:
		s.metrics.downward.WithLabelValues("accepted").Inc()
		return
	case err != nil:
		lost = synchronizer.DropDisconnected
	default:
		c.repair()
	}
	for i := range messages {
		s.options.Drop(lost, about(&messages[i]))
	}
}

// parcel is what one record says to a client.
type parcel struct {
	messages []synchronizer.Message // one, or one for each kind of a reconciliation
	waybill  *waybill               // nil: replay is off
}

func (p *parcel) size() int {
	n := 0
	for i := range p.messages {
		n += p.messages[i].Size()
	}
	if p.waybill != nil && p.waybill.kept == nil {
		n += p.waybill.record.Size()
		if body, payload := p.messages[0].Body, p.waybill.record.Payload; len(body) > 0 && len(payload) > 0 && &body[0] == &payload[0] {
			n -= len(body)
		}
	}
	return n
}

// list tells whether the parcel is a reconciliation, whose size nobody chooses.
func (p *parcel) list() bool { return len(p.messages[0].Known) > 0 }

// offer gives the parcel to the writer if there is room.
func (c *connection) offer(p parcel) (bool, error) {
	if p.list() {
		return c.down.offerBeyond(p, p.size())
	}
	return c.down.offer(p, p.size())
}

// put waits for room.
func (c *connection) put(ctx context.Context, p parcel) error { return c.down.put(ctx, p, p.size()) }

// messagesOf gives what is said to the client: of a reconciliation a message for
// each kind that it lists, all with its MsgID. They stay lists of known objects,
// which take a fifth of the memory of a batch, until they are written. Empty lists
// are refused by clients in the field and say nothing.
func (c *connection) messagesOf(m *synchronizer.Message) []synchronizer.Message {
	if m.Event != synchronizer.EventReconciliation {
		return []synchronizer.Message{*m}
	}
	if !reconciles(c.hello.SynchronizerVersion) {
		c.server.options.Drop(synchronizer.DropUnsupported, about(m)+": the client is too old")
		return nil
	}
	kinds := slices.SortedFunc(maps.Keys(m.Known), func(a, b synchronizer.Kind) int { return strings.Compare(a.String(), b.String()) })
	messages := make([]synchronizer.Message, 0, len(kinds))
	for _, kind := range kinds {
		list := *m
		list.Kind, list.Known = kind, map[synchronizer.Kind][]synchronizer.KnownObject{kind: m.Known[kind]}
		if len(m.Known[kind]) == 0 {
			c.server.options.Drop(synchronizer.DropUnsupported, about(&list))
			continue
		}
		messages = append(messages, list)
	}
	return messages
}

// batchOf is the batch that a client in the field understands: the items have
// neither MsgID nor depth of their own.
func batchOf(m *synchronizer.Message) synchronizer.Message {
	known := m.Known[m.Kind]
	batch := synchronizer.Message{
		Event: synchronizer.EventBatch, BatchType: wire.Reconciliation, Depth: m.Depth, MsgID: m.MsgID, Kind: m.Kind,
		ClusterID: m.ClusterID, TraceParent: m.TraceParent, Items: make([]synchronizer.Message, len(known)),
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
// time. Of a parcel that was written the messages are gone, also after an error.
func (c *connection) send(parcels []parcel) error {
	for len(parcels) > 0 {
		n := slices.IndexFunc(parcels, func(p parcel) bool { return p.list() })
		if n < 0 {
			n = len(parcels)
		}
		if n == 0 {
			n = 1
			for i := range parcels[0].messages {
				list := &parcels[0].messages[i]
				if err := c.write(batchOf(list)); err != nil {
					return err
				}
				list.Known = nil // not kept until the others are written
			}
		} else {
			messages := make([]synchronizer.Message, 0, n)
			for i := range parcels[:n] {
				messages = append(messages, parcels[i].messages...)
			}
			if err := c.write(messages...); err != nil {
				return err
			}
		}
		for i := range parcels[:n] {
			parcels[i].messages = nil
			if w := parcels[i].waybill; w != nil && w.kept != nil {
				c.server.replay.done(w.kept)
			}
		}
		parcels = parcels[n:]
	}
	return nil
}

// write fails when the connection has ended. A message that the link cannot carry
// was counted by it and ends nothing.
func (c *connection) write(msgs ...synchronizer.Message) error {
	heard, ok := c.heard()
	if ok && heard == 0 { // the first frame, for which a Send waits, is no answer
		_ = c.link.Send(c.ctx) // the next one fails in the same way
		heard, _ = c.heard()
	}
	err := c.link.Send(c.ctx, msgs...)
	if errors.Is(err, synchronizer.ErrClosed) || errors.Is(err, synchronizer.ErrDisconnected) {
		return err
	}
	if refused, some := errors.AsType[*link.RefusedError](err); some {
		for _, i := range slices.Backward(refused.Messages) {
			msgs = slices.Delete(msgs, i, i+1)
		}
	}
	if ok && len(msgs) > 0 {
		c.wrote(msgs, heard)
	}
	return nil
}

// leave ends the way down, after the link has ended: what was accepted for the
// client and may not have reached it is kept for its next connection, or counted.
// The connection may still be found, and takes nothing.
func (c *connection) leave() {
	c.leaving.Do(func() {
		replay := c.server.replay
		if replay != nil {
			replay.leave(c)
		}
		failed, waiting := c.down.end()
		c.replaying.Wait()
		unsent := slices.DeleteFunc(append(failed, waiting...), func(p parcel) bool { return p.messages == nil })
		if replay != nil {
			replay.giveBack(c, unsent)
			return
		}
		for i := range unsent {
			for j := range unsent[i].messages {
				c.server.options.Drop(synchronizer.DropDisconnected, about(&unsent[i].messages[j]))
			}
		}
	})
}
