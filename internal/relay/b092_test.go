// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue"
)

// TestB092AgesOfConnections are elapsed time, however the wall clock is set: who is
// old enough to be asked, how often clients have replaced each other lately, and
// whether an ingester is there. How long messages are kept for clients that are not
// connected is in replay_test.go, what a client keeps in internal/intake.
func TestB092AgesOfConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offset atomic.Int64
		set := func(d time.Duration) { offset.Store(int64(d)) }
		c := newClockWith(t, Options{
			Periodic: Periodic{Every: 10 * time.Minute, MinAge: 15 * time.Minute},
			// A wall clock and nothing else: no monotonic reading helps by chance.
			Now: func() time.Time { return time.Now().Round(0).Add(time.Duration(offset.Load())) },
		})
		c.run(t)
		asked := func(want int, why string) {
			t.Helper()
			require.Len(t, c.requests(), want, why)
		}
		c.acceptFrom(t, "c", "v0.0.140")
		set(time.Hour)
		pass(10 * time.Minute)
		asked(0, "it is 10 minutes old, whatever the clock says")
		set(-time.Hour)
		pass(10 * time.Minute)
		asked(1, "it is 20 minutes old")
		c.acceptFrom(t, "c", "v0.0.140") // connected an hour ago, says the clock when it is right again
		set(0)
		pass(10 * time.Minute)
		asked(1, "it is 10 minutes old")
		set(-time.Hour)
		pass(10 * time.Minute)
		asked(2, "it is 20 minutes old")
		set(time.Hour)
		for want := 3; want < 9; want++ {
			set(-time.Duration(offset.Load()))
			pass(10 * time.Minute)
			asked(want, "the clock jumps at each run")
		}

		// An ingester announces itself.
		var e queue.Encoder
		e.Encoding, e.Producer = queue.Compact, queue.Backend
		m := synchronizer.Message{Event: synchronizer.EventIngesterPresent, MsgID: "m", Depth: 1}
		r, err := e.Encode(&m, queue.Extra{})
		require.NoError(t, err)
		set(0)
		c.queue.tail <- []synchronizer.Record{r}
		synctest.Wait()
		for _, d := range []time.Duration{time.Hour, -time.Hour, 0} {
			set(d)
			require.True(t, c.IngesterPresent())
		}
		set(-time.Hour)
		pass(ingesterSilence)
		require.False(t, c.IngesterPresent())
	})
}

// TestB092Replacements counts those within five minutes, whatever the clock says.
func TestB092Replacements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offset atomic.Int64
		c := newClockWith(t, Options{Now: func() time.Time { return time.Now().Round(0).Add(time.Duration(offset.Load())) }})
		for range maxReplacements + 1 {
			c.acceptFrom(t, "c", "v0.0.140")
			offset.Add(int64(time.Hour))
		}
		require.NotContains(t, c.log.String(), "clients replace each other")
		c.acceptFrom(t, "c", "v0.0.140")
		require.Contains(t, c.log.String(), "clients replace each other", "the hours between were none")
	})
	synctest.Test(t, func(t *testing.T) {
		var offset atomic.Int64
		c := newClockWith(t, Options{Now: func() time.Time { return time.Now().Round(0).Add(time.Duration(offset.Load())) }})
		for range 3 * maxReplacements {
			c.acceptFrom(t, "c", "v0.0.140")
			pass(replaceWindow)
			offset.Add(-int64(replaceWindow))
		}
		require.NotContains(t, c.log.String(), "clients replace each other", "there were five minutes between, though the clock stood still")
	})
}

// TestB092TimestampsOfRecords decide nothing: they are of another machine.
func TestB092TimestampsOfRecords(t *testing.T) {
	var offset atomic.Int64
	f := newFixture(t, Options{Now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }}, nil)
	c := f.connect("a", "c")
	require.Eventually(t, func() bool { return f.registry.count() == 1 }, limit, time.Millisecond)
	conn := f.registry.find(synchronizer.ClusterID{Account: "a", Cluster: "c"})
	require.Contains(t, conn.opened.String(), " m=", "a monotonic reading, which ages are told from")
	require.Less(t, time.Since(conn.opened), limit)
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		offset.Store(int64(step))
		now := time.Now()
		for name, at := range map[string]time.Time{"past": now.Add(-time.Hour), "future": now.Add(time.Hour), "zero": {}, "missing": now} {
			m := ask("a", "c", name)
			e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend, Now: func() time.Time { return at }}
			r, err := e.Encode(&m, queue.Extra{})
			require.NoError(t, err)
			if name == "missing" {
				r.Properties = slices.DeleteFunc(r.Properties, func(p synchronizer.Property) bool { return p.Name == queue.PropertyTimestamp })
				require.Empty(t, r.Property(queue.PropertyTimestamp))
			}
			require.NoError(t, f.queue.Publish(t.Context(), synchronizer.In, []synchronizer.Record{r}))
			frame, err := c.next()
			require.NoError(t, err)
			require.Equal(t, name, frame["Name"])
			c.send(alert(name))
			got := f.object()
			require.Equal(t, name, got.Property("name"))
		}
	}
	require.Empty(t, f.drops.All())
}
