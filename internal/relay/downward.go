// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"synchronizer"
	"synchronizer/internal/queue"
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
	m, err := queue.Decode(r)
	if err != nil {
		s.options.Drop(queue.Reason(err), fmt.Sprintf("record for %s: %v", r.Key, err))
		return
	}
	switch {
	case m.Event == synchronizer.EventUnknown:
		s.options.Drop(synchronizer.DropUnknownEvent, fmt.Sprintf("record %q for %s", r.Property(queue.PropertyEvent), r.Key))
		return
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
		s.options.Drop(synchronizer.DropTooDeep, m.Event.String()+" "+m.Key().String())
		return
	}
	switch ok, err := c.down.offer(m, m.Size()); {
	case err != nil:
		s.options.Drop(synchronizer.DropDisconnected, m.Event.String()+" "+m.Key().String())
	case !ok:
		s.options.Drop(synchronizer.DropBacklog, m.Event.String()+" "+m.Key().String())
	default:
		s.metrics.downward.WithLabelValues("accepted").Inc()
	}
}

// send is the run function of the downward pump. A message that the link cannot
// carry was counted by it and ends nothing.
func (c *connection) send(batch []synchronizer.Message) error {
	err := c.link.Send(c.ctx, batch...)
	if errors.Is(err, synchronizer.ErrClosed) || errors.Is(err, synchronizer.ErrDisconnected) {
		return err
	}
	return nil
}

// dropUnsent counts what was accepted for the client and may not have reached it.
func (c *connection) dropUnsent(failed, waiting []synchronizer.Message) {
	for _, list := range [][]synchronizer.Message{failed, waiting} {
		for i := range list {
			c.server.options.Drop(synchronizer.DropDisconnected, list[i].Event.String()+" "+list[i].Key().String())
		}
	}
}
