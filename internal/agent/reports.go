// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"sync"

	"synchronizer"
)

// reportBatch is how many reports go in one Send when they wait at the same time.
const reportBatch = 16

// reports sends what others in the cluster report (the in-cluster HTTP endpoint
// hands it over). One goroutine is the only writer, so alerts keep their order;
// nothing waits in it but the batch that it sends.
type reports struct {
	agent *Agent
	queue chan synchronizer.Message // no buffer: handed over means that it is being sent
}

func newReports(a *Agent) *reports {
	return &reports{agent: a, queue: make(chan synchronizer.Message)}
}

// Connected tells whether a report could be sent now.
func (a *Agent) Connected() bool {
	s, _ := a.hub.get()
	if s == nil {
		return false
	}
	select {
	case <-s.down:
		return false
	default:
		return true
	}
}

// Report hands a report to the outbound worker and returns when the worker has
// it. From then on the worker sends it, over the next link if this one breaks
// meanwhile; a process that ends first loses it. It waits while the worker is
// busy, until ctx ends; without a link the error is ErrDisconnected. The message is
// complete, with MsgID and depth; the agent owns its body afterwards.
func (a *Agent) Report(ctx context.Context, msg synchronizer.Message) error {
	s, _ := a.hub.get()
	if s == nil {
		return synchronizer.ErrDisconnected
	}
	select {
	case a.reports.queue <- msg:
		return nil
	case <-s.down:
		return synchronizer.ErrDisconnected
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run sends until ctx ends; life bounds a Send.
func (r *reports) run(ctx, life context.Context, running *sync.WaitGroup) {
	running.Go(func() {
		for {
			select {
			case msg := <-r.queue:
				r.send(ctx, life, r.more(msg))
			case <-ctx.Done():
				return
			}
		}
	})
}

// more takes what waits at the same time.
func (r *reports) more(first synchronizer.Message) []synchronizer.Message {
	batch := []synchronizer.Message{first}
	for len(batch) < reportBatch {
		select {
		case msg := <-r.queue:
			batch = append(batch, msg)
		default:
			return batch
		}
	}
	return batch
}

// send writes a batch to the link, or to the next one. What a link took before it
// broke may arrive twice; the ingester knows reports by their MsgID.
func (r *reports) send(ctx, life context.Context, batch []synchronizer.Message) {
	var broken *session
	for {
		s, changed := r.agent.hub.get()
		if s != nil && s != broken {
			err := s.link.Send(life, batch...)
			if err == nil || errors.Is(err, synchronizer.ErrTooLarge) { // which was named by the link
				return
			}
			s.end(r.agent.options.Clock.Now(), err)
			broken = s
		}
		select {
		case <-changed:
		case <-ctx.Done():
			for i := range batch {
				r.agent.drop(synchronizer.DropDisconnected, &batch[i])
			}
			return
		}
	}
}
