// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"synchronizer"
)

const (
	closeGoingAway = 1001
	goodConnection = time.Minute // a link that lived so long resets the back-off
	// dialDelayMin is what the first pause may be at most. Shorter, the clients of
	// a server that has ended would come to the next one in the same second.
	dialDelayMin = 2 * time.Second
	dialDelayMax = time.Minute
)

// session is one link from its connect to its end.
type session struct {
	link    synchronizer.Link
	started time.Time
	down    chan struct{} // closed when the link is dead

	once sync.Once
	at   time.Time // when it ended; read only after down is closed
	err  error     // why; read only after down is closed
}

func newSession(link synchronizer.Link, now time.Time) *session {
	return &session{link: link, started: now, down: make(chan struct{})}
}

// end says that the link is dead. The first call counts.
func (s *session) end(now time.Time, err error) {
	s.once.Do(func() {
		s.at, s.err = now, err
		close(s.down)
	})
}

// hub tells the streams which session there is.
type hub struct {
	mu      sync.Mutex
	current *session
	changed chan struct{} // closed and replaced by set
}

func (h *hub) set(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = s
	close(h.changed)
	h.changed = make(chan struct{})
}

// get returns the session, nil if there is none, and what is closed when that
// changes.
func (h *hub) get() (*session, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current, h.changed
}

// dialing makes links, with back-off.
type dialing struct {
	agent *Agent
	delay *backoff.ExponentialBackOff
}

func newDialing(a *Agent) *dialing {
	// A randomization of 1 gives anything from 0 to twice the interval: full jitter.
	return &dialing{agent: a, delay: &backoff.ExponentialBackOff{
		InitialInterval: dialDelayMin / 2, MaxInterval: dialDelayMax / 2, Multiplier: 2, RandomizationFactor: 1,
	}}
}

// next is how long to wait after err, which may be nil. A server that says when
// to come again is not asked before, and not by all in the same moment.
func (d *dialing) next(err error) time.Duration {
	delay := d.delay.NextBackOff()
	var later *synchronizer.RetryAfterError
	if errors.As(err, &later) && later.After > 0 {
		delay = max(delay, later.After+rand.N(min(later.After, dialDelayMax)))
	}
	return delay
}

// first makes the first link. Without one and without an error ctx has ended.
func (d *dialing) first(ctx context.Context) (synchronizer.Link, error) {
	clock := d.agent.options.Clock
	until := clock.Now().Add(d.agent.options.FirstConnectTimeout)
	dialCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	expired, stop := clock.After(d.agent.options.FirstConnectTimeout)
	defer stop()
	go func() { // a dial that hangs ends in time, too
		select {
		case <-expired:
			cancel()
		case <-dialCtx.Done():
		}
	}()
	d.delay.Reset()
	for {
		link, err := d.dial(dialCtx)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case err == nil:
			return link, nil
		case isFinal(err):
			return nil, fmt.Errorf("connecting: %w", err)
		}
		delay := d.next(err)
		if left := until.Sub(clock.Now()); left <= delay {
			if !d.pause(ctx, left) {
				return nil, nil
			}
			return nil, fmt.Errorf("connecting, given up after %v: %w", d.agent.options.FirstConnectTimeout, err)
		}
		d.agent.options.Logger.Warn("cannot connect yet", "error", err, "retryIn", delay)
		if !d.pause(ctx, delay) {
			return nil, nil
		}
	}
}

// ended takes note of how long a session lived.
func (d *dialing) ended(s *session, now time.Time) {
	if now.Sub(s.started) >= goodConnection {
		d.delay.Reset()
	}
}

// again makes the next link, after a pause; nil when ctx has ended.
func (d *dialing) again(ctx context.Context) synchronizer.Link {
	var err error
	for d.pause(ctx, d.next(err)) {
		var link synchronizer.Link
		if link, err = d.dial(ctx); err == nil {
			d.agent.metrics.reconnects.Inc()
			return link
		}
		if ctx.Err() == nil {
			d.agent.options.Logger.Warn("cannot connect again yet", "error", err)
		}
	}
	return nil
}

// dial makes one try. A link that comes after the end of ctx is closed.
func (d *dialing) dial(ctx context.Context) (synchronizer.Link, error) {
	link, err := d.agent.options.Dialer.Dial(ctx)
	if err == nil && ctx.Err() != nil {
		return nil, fmt.Errorf("connecting: %w", errors.Join(ctx.Err(), link.Close(closeGoingAway, "going away")))
	}
	return link, err
}

// pause waits; false when ctx has ended.
func (d *dialing) pause(ctx context.Context, delay time.Duration) bool {
	after, stop := d.agent.options.Clock.After(delay)
	defer stop()
	select {
	case <-after:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
