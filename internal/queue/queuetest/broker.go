// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer"
)

const tick = 20 * time.Millisecond

func testStopped(t *testing.T, s *suite) { disturb(t, s, Broker.Stop) }
func testKilled(t *testing.T, s *suite)  { disturb(t, s, Broker.Kill) }

// disturb ends the broker while publishers and readers are at work. Every
// accepted record arrives, per key in order (what is repeated counted in), and
// readers go on by themselves.
func disturb(t *testing.T, s *suite, end func(Broker, *testing.T)) {
	s.Patience *= 6 // brokers in Java take their time
	broker := s.Broker(t)
	open := func() synchronizer.Queue {
		q := broker.Open(t)
		t.Cleanup(func() { closeQueue(t, q) })
		return q
	}
	publishing, reading := open(), open()
	c := s.consume(t, reading)
	tailed, err := reading.Tail(s.ctx(t))
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(s.ctx(t))
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	consumed, seen := newProgress(), newProgress()
	g.Go(func() error {
		for {
			batch, err := c.Next(ctx, 50, 1<<20)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf("consumer: %w", err)
			}
			if err := consumed.add(batch.Records); err != nil {
				return fmt.Errorf("consumer: %w", err)
			}
			_ = batch.Ack(ctx) // if not, they come again
		}
	})
	g.Go(func() error {
		for {
			records, err := tailed.Next(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf("tail: %w", err)
			}
			if err := seen.add(records); err != nil {
				return fmt.Errorf("tail: %w", err)
			}
		}
	})

	// Each publisher has keys of its own and publishes again what was not
	// confirmed, until it is told to end.
	const publishers = 6
	var accepted atomic.Int64 // in each direction
	var enough atomic.Bool
	publish := errgroup.Group{}
	for k := range publishers {
		publish.Go(func() error {
			key := fmt.Sprintf("account/%d", k)
			for n := 0; !enough.Load(); n += 10 {
				for _, to := range []synchronizer.Direction{synchronizer.Out, synchronizer.In} {
					records := numbered(key, n, n+10)
					for {
						err := publishing.Publish(ctx, to, records)
						if err == nil {
							break
						}
						if ctx.Err() != nil || errors.Is(err, synchronizer.ErrClosed) {
							return err
						}
					}
				}
				accepted.Add(10)
			}
			return nil
		})
	}
	require.NoError(t, consumed.wait(ctx, 300))
	require.NoError(t, seen.wait(ctx, 300))
	end(broker, t)
	before := accepted.Load()
	broker.Start(t)
	require.Eventually(t, func() bool { return ctx.Err() != nil || accepted.Load() >= before+600 }, s.Patience, tick)
	enough.Store(true)
	require.NoError(t, publish.Wait())
	total := int(accepted.Load())
	consumedAll, seenAll := consumed.wait(ctx, total), seen.wait(ctx, total)
	cancel()
	require.NoError(t, g.Wait())
	require.NoError(t, consumedAll)
	require.NoError(t, seenAll)
	require.Greater(t, total, int(before), "publishers went on")
	require.Equal(t, total, consumed.count())
	require.Equal(t, total, seen.count())
}

// testAway: the error says what is away.
func testAway(t *testing.T, s *suite) {
	err := s.Absent(t)
	require.Error(t, err)
	require.NotErrorIs(t, err, synchronizer.ErrUnauthorized)
	require.NotEqual(t, context.DeadlineExceeded.Error(), err.Error(), "names the address")
}

func testMissingTopic(t *testing.T, s *suite) {
	err := s.MissingTopic(t)
	require.Error(t, err)
	require.ErrorContains(t, err, "topic")
	require.NotErrorIs(t, err, synchronizer.ErrUnauthorized)
}

func testWays(t *testing.T, s *suite) {
	for _, way := range s.Ways {
		t.Run(way.Name, func(t *testing.T) {
			t.Attr("scenario", "way in: "+way.Name)
			q, err := way.Open(t)
			require.NoError(t, err)
			defer closeQueue(t, q)
			c := s.consume(t, q)
			tailed, err := q.Tail(s.ctx(t))
			require.NoError(t, err)
			s.publish(t, q, synchronizer.Out, numbered("account/a", 0, 1)...)
			s.publish(t, q, synchronizer.In, numbered("account/a", 0, 1)...)
			requireOrder(t, s.read(t, c, 1), 1, 1)
			requireOrder(t, s.readTail(t, tailed, 1), 1, 1)
		})
	}
}

// causes are words of which the error of a wrong credential has one.
var causes = []string{"auth", "credential", "certificate", "x509", "password", "token", "permission", "sasl", "nkey"}

func testWrong(t *testing.T, s *suite) {
	for _, way := range s.Ways {
		if way.Wrong == nil {
			continue
		}
		t.Run(way.Name, func(t *testing.T) {
			t.Attr("scenario", "wrong credential: "+way.Name)
			err := way.Wrong(t)
			require.Error(t, err)
			text := strings.ToLower(err.Error())
			named := false
			for _, cause := range causes {
				named = named || strings.Contains(text, cause)
			}
			require.True(t, named, "%s: the error names the cause", err)
			for _, secret := range way.Secrets {
				require.NotContains(t, err.Error(), secret)
			}
		})
	}
}
