// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"synchronizer"
)

// Play changes objects of a kind one after the other, n changes at rate per
// second, each to a new resourceVersion, and sends them to the watches. It
// returns when all were sent or ctx ends.
func (s *Server) Play(ctx context.Context, kind synchronizer.Kind, n int, rate float64) error {
	c := s.kinds[kind]
	if c == nil || len(c.items) == 0 {
		return fmt.Errorf("playing changes of %v: %w", kind, synchronizer.ErrKindNotServed)
	}
	if rate <= 0 {
		return errors.New("playing changes: the rate must be above zero")
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	for done := 0; done < n; {
		due := min(n, 1+int(time.Since(start).Seconds()*rate))
		for ; done < due; done++ {
			if err := c.change(done); err != nil {
				return fmt.Errorf("playing changes of %v: %w", kind, err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return synchronizer.ErrClosed
		case <-tick.C:
		}
	}
	return nil
}

// change makes the nth change of a run, which falls on the nth object.
func (c *collection) change(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := n % len(c.items)
	item, err := changed(c.items[i], c.version+1, n)
	if err != nil {
		return err
	}
	c.version++
	c.items[i] = item
	line := c.set.typed([]byte(`{"type":"MODIFIED","object":`), item)
	c.log = append(c.log, event{c.version, append(line, "}\n"...)})
	if len(c.log) > maxLog {
		c.dropped += len(c.log) - maxLog/2
		c.log = append([]event(nil), c.log[len(c.log)-maxLog/2:]...)
	}
	c.sent[c.names[i]+"/"+strconv.FormatInt(c.version, 10)] = time.Now()
	close(c.wake)
	c.wake = make(chan struct{})
	return nil
}

// Sent tells when the change to a resourceVersion was given to the watches.
func (s *Server) Sent(kind synchronizer.Kind, namespace, name, resourceVersion string) (time.Time, bool) {
	c := s.kinds[kind]
	if c == nil {
		return time.Time{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.sent[namespace+"/"+name+"/"+resourceVersion]
	return at, ok
}

// ResourceVersion is the newest one of a kind.
func (s *Server) ResourceVersion(kind synchronizer.Kind) string {
	c := s.kinds[kind]
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return strconv.FormatInt(c.version, 10)
}
