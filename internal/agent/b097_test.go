// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/policy"
)

// crowd is a server to which many clients connect. It counts when they do.
type crowd struct {
	mu       sync.Mutex
	began    time.Time
	refuse   func(since time.Duration) error // nil: everybody is let in
	attempts []time.Duration                 // since began, of all
	accepted []time.Duration
	links    []*fakeLink
}

// Dial implements synchronizer.Dialer.
func (c *crowd) Dial(context.Context) (synchronizer.Link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := time.Since(c.began)
	c.attempts = append(c.attempts, since)
	if c.refuse != nil {
		if err := c.refuse(since); err != nil {
			return nil, err
		}
	}
	c.accepted = append(c.accepted, since)
	l := &fakeLink{up: make(chan synchronizer.Message, 1), down: make(chan synchronizer.Message), dead: make(chan struct{})}
	c.links = append(c.links, l)
	return l, nil
}

// ends cuts every link, and counts from here.
func (c *crowd) ends(refuse func(since time.Duration) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.links {
		l.fail(synchronizer.ErrDisconnected)
	}
	c.began, c.refuse, c.attempts, c.accepted, c.links = time.Now(), refuse, nil, nil, nil
}

func (c *crowd) counted() (attempts, accepted []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.attempts), slices.Clone(c.accepted)
}

// perSecond is how many of the times lie in each second.
func perSecond(times []time.Duration) []int {
	var histogram []int
	for _, at := range times {
		second := int(at / time.Second)
		for len(histogram) <= second {
			histogram = append(histogram, 0)
		}
		histogram[second]++
	}
	return histogram
}

var errServerDown = errors.New("connecting to wss://h: connection refused")

func downFor(d time.Duration) func(time.Duration) error {
	return func(since time.Duration) error {
		if since < d {
			return errServerDown
		}
		return nil
	}
}

// Case B097: reconnect storm.
func TestB097ReconnectStorm(t *testing.T) {
	const clients, outage = 500, 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		server := &crowd{began: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for range clients {
			a, err := New(Options{
				Cluster: emptyCluster(), Dialer: server, Policy: policy.New(policy.LinkV1),
				Drop: func(synchronizer.DropReason, string) {}, BaselineBytes: 1 << 16,
			})
			require.NoError(t, err)
			running.Go(func() { _ = a.Run(ctx) })
		}
		pass := func(d time.Duration) {
			time.Sleep(d) // of the bubble: it takes no real time
			synctest.Wait()
		}
		pass(time.Hour) // of good service

		// Again and again, as in the case. Each outage begins behind more than a minute
		// of good connection, so the pauses begin small; none grows beyond a minute.
		for range 3 {
			server.ends(downFor(outage))
			pass(outage)
			attempts, _ := server.counted()
			histogram := perSecond(attempts)
			average := len(attempts) / int(outage/time.Second)
			t.Logf("attempts per second while it is down: %v, on average %d", histogram, average)
			require.Less(t, slices.Max(histogram), 6*average, "no second holds more than a small multiple of the average")
			require.Less(t, histogram[0], clients, "not even the first: another server may be there already")
			pass(dialDelayMax)
			_, accepted := server.counted()
			require.Len(t, accepted, clients, "the delay is capped at a minute, so all have been there")
			back := perSecond(accepted)[int(outage/time.Second):]
			t.Logf("accepted per second when it is back: %v", back)
			require.Less(t, slices.Max(back), clients/5, "they do not come back in the same second")
			pass(2 * goodConnection)
		}

		// A server that takes everybody and falls over at once: the pauses grow,
		// because no connection was good for a while.
		for range 12 {
			server.ends(nil)
			pass(5 * time.Second)
		}
		server.ends(nil)
		pass(time.Second)
		attempts, _ := server.counted()
		require.Less(t, len(attempts), clients/10, "a short connection resets nothing")
		cancel()
		running.Wait()
	})
}

// A server comes back with 10,000 clients before it, while another refuses for some
// seconds because it is not ready, as ours do. The loops are those of the agent.
func TestReconnectStormOfTenThousand(t *testing.T) {
	const clients = 10_000
	busy := &synchronizer.RetryAfterError{After: 5 * time.Second, Err: errors.New("HTTP 503")}
	for name, storm := range map[string]struct {
		refuse func(time.Duration) error
		most   int // accepted in one second
	}{
		"at once back":    {nil, clients * 2 / 3},
		"away for 5 s":    {downFor(5 * time.Second), clients / 3},
		"away for 60 s":   {downFor(time.Minute), clients / 15},
		"503 for 3 s":     {func(since time.Duration) error { return notReady(busy, since, 3*time.Second) }, clients / 3},
		"503 for a while": {func(since time.Duration) error { return notReady(busy, since, 40*time.Second) }, clients / 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &crowd{began: time.Now(), refuse: storm.refuse}
				a, err := New(Options{
					Cluster: emptyCluster(), Dialer: server, Policy: policy.New(policy.LinkV1), Drop: func(synchronizer.DropReason, string) {},
				})
				require.NoError(t, err)
				var running sync.WaitGroup
				for range clients {
					running.Go(func() { newDialing(a).again(t.Context()) })
				}
				running.Wait()
				_, accepted := server.counted()
				histogram := perSecond(accepted)
				t.Logf("accepted per second: %v", histogram)
				require.Len(t, accepted, clients)
				require.Less(t, slices.Max(histogram), storm.most)
				require.Less(t, slices.Max(accepted), 2*time.Minute+time.Second)
			})
		})
	}
}

func notReady(err error, since, until time.Duration) error {
	if since < until {
		return err
	}
	return nil
}

// TestRetryAfter: a server that says when to come again is not asked before, at
// the first connect and later, and the pause is not the same for all.
func TestRetryAfter(t *testing.T) {
	for name, test := range map[string]struct{ after, most time.Duration }{
		"seconds":   {5 * time.Second, time.Minute},
		"a minute":  {time.Minute, 2 * time.Minute},
		"ten times": {10 * time.Minute, 11 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pauses []time.Duration
				last := time.Now()
				server := &crowd{began: time.Now(), refuse: func(time.Duration) error {
					pauses = append(pauses, time.Since(last))
					last = time.Now()
					if len(pauses) == 30 {
						return nil
					}
					return &synchronizer.RetryAfterError{After: test.after, Err: errors.New("HTTP 503")}
				}}
				a, err := New(Options{
					Cluster: emptyCluster(), Dialer: server, Policy: policy.New(policy.LinkV1),
					Drop: func(synchronizer.DropReason, string) {}, FirstConnectTimeout: 24 * time.Hour,
				})
				require.NoError(t, err)
				link, err := newDialing(a).first(t.Context())
				require.NoError(t, err)
				require.NotNil(t, link)
				first := pauses[1:]
				pauses, last = nil, time.Now()
				require.NotNil(t, newDialing(a).again(t.Context()))
				require.Less(t, pauses[0], dialDelayMin, "before the server has said anything")
				for _, all := range [][]time.Duration{first, pauses[1:]} {
					require.GreaterOrEqual(t, slices.Min(all), test.after)
					require.Less(t, slices.Max(all), test.most)
					require.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), len(all), "no two are the same")
				}
			})
		})
	}
	t.Run("beyond the end of the first connect", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			r.backend.setRefuse(&synchronizer.RetryAfterError{After: time.Hour, Err: errors.New("HTTP 503")})
			started := time.Now()
			r.start()
			require.ErrorContains(t, <-r.done, "given up after 15m0s: HTTP 503")
			require.Equal(t, 15*time.Minute, time.Since(started), "not before: whoever starts it again would ask too early")
			require.Equal(t, 1, r.backend.dials)
		})
	})
}
