// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"errors"
	"fmt"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"

	"synchronizer"
)

var (
	errAnew       = errors.New("delivery has begun anew, the records come again")
	errUnanswered = errors.New("broker does not answer, what it has not got comes again")
)

// batch is what Next has returned.
type batch struct {
	number uint64
	ids    []client.MessageID
}

// held is a subscription in use. One acknowledgement is on its way at a time: the
// library does the same, and meanwhile nothing else for the subscription. A broker
// that hands the topic over never answers one that reaches it too late. The library
// waits 10 s then, before it looks whether it was disconnected, and again for each
// acknowledgement that stands before it. So a subscription whose broker is silent is
// given up, and closed when the library has time for that.
type held struct {
	subscription
	w      *watched
	turn   chan struct{} // who has put something into it may acknowledge
	silent chan struct{} // closed when the broker was silent for too long
}

func newHeld(sub subscription, w *watched) *held {
	return &held{subscription: sub, w: w, turn: make(chan struct{}, 1), silent: make(chan struct{})}
}

// acknowledge returns when the broker has what ids gives. It is asked when it is
// their turn.
func (s *held) acknowledge(ctx context.Context, q *Queue, ids func() ([]client.MessageID, error)) error {
	select {
	case s.turn <- struct{}{}:
	case <-s.w.ctx.Done():
		return errAnew
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	all, err := ids()
	if err == nil && s.w.ctx.Err() != nil {
		err = errAnew
	}
	if err != nil || len(all) == 0 {
		<-s.turn
		return err
	}
	answer := make(chan error, 1)
	q.tasks.Go(func() { // not the caller, who may have no time
		patience := time.AfterFunc(q.config.ackPatience, func() {
			q.config.Logger.Warn("queue: broker does not answer an acknowledgement, subscribing anew", "topic", q.config.topic(synchronizer.Out))
			s.w.giveUp()
			close(s.silent)
		})
		err := s.AckIDList(all)
		patience.Stop()
		answer <- err
		<-s.turn
	})
	select {
	case err := <-answer:
		return plain(err)
	case <-s.silent:
		return errUnanswered
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave closes the subscription, behind the acknowledgement that is on its way: the
// library would never answer one that comes after its end.
func (s *held) leave() {
	s.turn <- struct{}{}
	s.Close()
}

// acknowledge covers the batch and all before it, and returns when the broker has
// it. Key_Shared knows no cumulative acknowledgement, so every id is named.
func (c *consumer) acknowledge(ctx context.Context, number, epoch uint64) error {
	ctx, done, err := c.q.enter(ctx)
	if err != nil {
		return fmt.Errorf("acknowledging: %w", err)
	}
	defer done()
	s, ids, err := c.covered(number, epoch)
	if err == nil && len(ids) > 0 {
		err = s.acknowledge(ctx, c.q, func() ([]client.MessageID, error) {
			_, ids, err := c.covered(number, epoch)
			return ids, err
		})
	}
	if err != nil {
		if c.ctx.Err() != nil {
			err = synchronizer.ErrClosed
		}
		return fmt.Errorf("acknowledging: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.epoch == epoch && len(c.open) > 0 && c.open[0].number <= number {
		c.open = c.open[1:]
	}
	return nil
}

// covered are the ids that an acknowledgement of a batch stands for, and the
// subscription that they came from.
func (c *consumer) covered(number, epoch uint64) (*held, []client.MessageID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, nil, synchronizer.ErrClosed
	}
	if c.epoch != epoch {
		return nil, nil, errAnew
	}
	var ids []client.MessageID
	for _, b := range c.open {
		if b.number > number {
			break
		}
		ids = append(ids, b.ids...)
	}
	return c.current, ids, nil
}

// acknowledgeUnseen may fail: then they come again.
func (c *consumer) acknowledgeUnseen(s *held, ids []client.MessageID) {
	err := s.acknowledge(c.ctx, c.q, func() ([]client.MessageID, error) { return ids, nil })
	if err != nil && c.ctx.Err() == nil {
		c.q.config.Logger.Warn("queue: cannot acknowledge records of others", "records", len(ids), "error", err)
	}
}

// plain shortens the library's error, which names each id.
func plain(err error) error {
	var refused client.AckError
	if errors.As(err, &refused) {
		for _, reason := range refused {
			return reason
		}
	}
	return err
}
