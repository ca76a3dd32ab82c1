// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/internal/config"
	"synchronizer/internal/queue"
)

// of gives the published records of an event.
func (c *clock) of(event synchronizer.Event) (list []synchronizer.Record) {
	synctest.Wait()
	for _, r := range c.queue.published() {
		if r.Property(queue.PropertyEvent) == event.String() {
			list = append(list, r)
		}
	}
	return list
}

// periodic are the records of the keep-alive, which are about nobody.
func (c *clock) periodic() (list []synchronizer.Record) {
	for _, r := range c.of(synchronizer.EventConnectedClients) {
		if r.Property(queue.PropertyAccount) == "" {
			list = append(list, r)
		}
	}
	return list
}

func cronOf(t *testing.T, expression string) Schedule {
	t.Helper()
	s, err := config.ParseCron(expression)
	require.NoError(t, err)
	return s
}

// recordedOf is the first record of an event that a server in the field published by
// itself, for nobody in particular.
func recordedOf(t *testing.T, event synchronizer.Event, scenario string) recordedRecord {
	t.Helper()
	for _, r := range readLines[recordedRecord](t, "../queue/testdata/records-pulsar.jsonl") {
		if r.Direction == "server->broker" && r.Properties["event"] == event.String() && strings.Contains(r.Scenario, scenario) {
			return r
		}
	}
	require.FailNow(t, "not recorded", "%s", event)
	panic("unreachable")
}

// TestPeriodicReconciliation: when runs come, and whom they ask. A connection is made
// at the beginning, one after 25 minutes; time begins at midnight UTC.
func TestPeriodicReconciliation(t *testing.T) {
	const minute = time.Minute
	for _, test := range []struct {
		name     string
		periodic Periodic
		// want has the minutes at which the early and the late connection are asked
		// within an hour.
		early, late []float64
	}{
		{"interval", Periodic{Every: 20 * minute, MinAge: 10 * minute}, []float64{20, 40, 60}, []float64{40, 60}},
		{"age", Periodic{Every: 20 * minute, MinAge: 40 * minute}, []float64{40, 60}, nil},
		{"cron", Periodic{Cron: cronOf(t, "15,30 * * * *"), MinAge: 10 * minute}, []float64{15, 30}, nil},
		{"cron with seconds", Periodic{Cron: cronOf(t, "30 50 * * * *"), MinAge: 10 * minute}, []float64{50.5}, []float64{50.5}},
		{"cron wins", Periodic{Cron: cronOf(t, "50 * * * *"), Every: 20 * minute, MinAge: 10 * minute}, []float64{50}, []float64{50}},
		{"cron of another zone", Periodic{Cron: cronOf(t, "TZ=Asia/Kolkata 45 5 * * *"), MinAge: minute}, []float64{15}, nil},
		{"cron of another zone, its other form", Periodic{Cron: cronOf(t, "CRON_TZ=Asia/Kolkata 0 15 6 * * *"), MinAge: minute}, []float64{45}, []float64{45}},
		{"every hour", Periodic{Cron: cronOf(t, "@hourly"), MinAge: minute}, []float64{60}, []float64{60}},
		{"off without an age", Periodic{Cron: cronOf(t, "* * * * *"), Every: minute}, nil, nil},
		{"off with a negative age", Periodic{Every: minute, MinAge: -minute}, nil, nil},
		{"off without times", Periodic{MinAge: minute}, nil, nil},
		{"off with a negative interval", Periodic{Every: -minute, MinAge: minute}, nil, nil},
		{"no end of time", Periodic{Every: math.MaxInt64, MinAge: minute}, nil, nil},
		{"no end of age", Periodic{Every: minute, MinAge: math.MaxInt64}, nil, nil},
		{"two runs of a schedule", Periodic{Cron: few(2), MinAge: minute}, []float64{10, 20}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClockWith(t, Options{Periodic: test.periodic})
				c.run(t)
				began := time.Now()
				c.acceptFrom(t, "early", "v0.0.57")
				asked := map[string][]float64{}
				seen := 0
				for time.Since(began) <= time.Hour {
					for _, r := range c.requests()[seen:] {
						seen++
						id := r.Property(queue.PropertyCluster)
						asked[id] = append(asked[id], time.Since(began).Minutes())
					}
					if time.Since(began) == 25*minute {
						c.acceptFrom(t, "late", "v0.0.57")
					}
					pass(time.Second / 2)
				}
				require.Equal(t, test.early, asked["early"])
				require.Equal(t, test.late, asked["late"])
				require.Empty(t, c.of(synchronizer.EventReconciliationBatch))
			})
		})
	}
}

// few is a schedule of so many times, ten minutes apart.
type few int

func (n few) Next(after time.Time) time.Time {
	first := time.Date(2000, 1, 1, 0, 10, 0, 0, time.UTC)
	for i := range int(n) {
		if at := first.Add(time.Duration(i) * 10 * time.Minute); at.After(after) {
			return at
		}
	}
	return time.Time{}
}

// TestPeriodicRequests are like those after a connect, one for each cluster, behind
// its newest connection only.
func TestPeriodicRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClockWith(t, Options{Periodic: Periodic{Every: 10 * time.Minute, MinAge: time.Minute}})
		c.run(t)
		c.acceptFrom(t, "b", "v1.0.0")
		c.acceptFrom(t, "a", "v1.0.0")
		c.acceptFrom(t, "old", "v0.0.56")
		gone := c.acceptFrom(t, "gone", "v1.0.0")
		pass(9*time.Minute + 30*time.Second)
		gone()
		c.acceptFrom(t, "b", "v1.0.0") // too young, and the older one is not asked for it
		pass(30 * time.Second)
		got := c.requests()
		require.Len(t, got, 1)
		pass(10 * time.Minute)
		got = c.requests()
		require.Len(t, got, 3)
		require.Equal(t, []string{"a/a", "a/a", "a/b"}, []string{got[0].Key, got[1].Key, got[2].Key})

		recorded := recordedOf(t, synchronizer.EventReconciliation, "periodic")
		ids := map[string]bool{}
		for i := range got {
			var want, have map[string]any
			require.NoError(t, json.Unmarshal(recorded.Payload, &want))
			require.NoError(t, json.Unmarshal(got[i].Payload, &have))
			ids[have["msgId"].(string)] = true
			want["account"], want["cluster"], want["msgId"] = "a", got[i].Property(queue.PropertyCluster), have["msgId"]
			require.Equal(t, want, have)
			for name := range recorded.Properties {
				require.NotEmpty(t, got[i].Property(name), name)
			}
		}
		require.Len(t, ids, 3, "each has an id of its own")
	})
}

// TestPeriodicBatch is the record that servers in the field publish; with nobody to
// ask there is none.
func TestPeriodicBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClockWith(t, Options{ReconcileAfter: time.Hour, Periodic: Periodic{Every: 10 * time.Minute, MinAge: 15 * time.Minute, Batch: true}})
		c.run(t)
		c.acceptFrom(t, "silent", "")
		pass(10 * time.Minute)
		require.Empty(t, c.of(synchronizer.EventReconciliationBatch))
		c.acceptFrom(t, "b", "v0.0.57")
		c.acceptFrom(t, "a", "v0.0.57")
		pass(10 * time.Minute)
		require.Empty(t, c.of(synchronizer.EventReconciliationBatch), "nobody is old enough")
		pass(10 * time.Minute)
		got := c.of(synchronizer.EventReconciliationBatch)
		require.Len(t, got, 1)
		recorded := recordedOf(t, synchronizer.EventReconciliationBatch, "sendBatch true")
		var want, have map[string]any
		require.NoError(t, json.Unmarshal(recorded.Payload, &want))
		require.NoError(t, json.Unmarshal(got[0].Payload, &have))
		require.Len(t, have["msgId"], len(want["msgId"].(string)))
		want["msgId"] = have["msgId"]
		request := want["requests"].([]any)[0].(map[string]any)
		var requests []any
		for _, cluster := range []string{"a", "b"} {
			one := map[string]any{}
			for name, value := range request {
				one[name] = value
			}
			one["account"], one["cluster"] = "a", cluster
			requests = append(requests, one)
		}
		want["requests"] = requests
		require.Equal(t, want, have)
		require.Equal(t, "", requests[0].(map[string]any)["msgId"])
		require.Equal(t, 0.0, requests[0].(map[string]any)["depth"])
		require.Empty(t, got[0].Key)
		require.Empty(t, got[0].Property(queue.PropertyAccount))
		require.Empty(t, got[0].Property(queue.PropertyCluster))
		require.Empty(t, c.requests(), "those after the connect are not due")

		// What is asked after a connect is a single message all the same.
		pass(time.Hour)
		require.Len(t, c.requests(), 2)
	})
}

// TestKeepAlive: who is connected, without account and cluster, also when it is
// nobody; beside it one at each connect.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClockWith(t, Options{KeepAlive: 5 * time.Second})
		c.run(t)
		pass(5 * time.Second)
		got := c.periodic()
		require.Len(t, got, 1)
		requireLike(t, recordedOf(t, synchronizer.EventConnectedClients, "no client connected"), &got[0])
		leave := c.acceptFrom(t, "c", "v0.0.140")
		c.acceptFrom(t, "c", "v0.0.140")
		c.acceptFrom(t, "d", "v0.0.1")
		require.Len(t, c.of(synchronizer.EventConnectedClients), 4, "one at each connect")
		pass(5 * time.Second)
		got = c.periodic()
		require.Len(t, got, 2)
		clients := func(r *synchronizer.Record) (names []string) {
			m, err := queue.Decode(r)
			require.NoError(t, err)
			require.Equal(t, time.Now(), m.Clients.KeepAlive.In(time.Local))
			for _, client := range m.Clients.Clients {
				names = append(names, client.ClusterID.String()+" "+client.SynchronizerVersion)
			}
			return names
		}
		require.Equal(t, []string{"a/c v0.0.140", "a/d v0.0.1"}, clients(&got[1]), "the newest connection of each cluster, also of old clients")
		leave()
		pass(5 * time.Second)
		require.Len(t, c.periodic(), 3)
		pass(time.Hour)
		require.Len(t, c.periodic(), 3+720)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newClockWith(t, Options{})
		c.run(t)
		c.accept(t, "v0.0.140")
		pass(time.Hour)
		require.Empty(t, c.periodic(), "it is off")
		require.Len(t, c.of(synchronizer.EventConnectedClients), 1)
	})
}

// requireLike compares a record with one of the field, but for what differs each time.
func requireLike(t *testing.T, recorded recordedRecord, r *synchronizer.Record) {
	t.Helper()
	var want, have map[string]any
	require.NoError(t, json.Unmarshal(recorded.Payload, &want))
	require.NoError(t, json.Unmarshal(r.Payload, &have))
	for _, name := range []string{"msgId", "keepalive", "serverName"} {
		require.NotEmpty(t, have[name])
		want[name] = have[name]
	}
	require.Equal(t, want, have)
	for name := range recorded.Properties {
		require.NotEmpty(t, r.Property(name), name)
	}
}

// strict is a queue that takes no record above a size.
type strict struct {
	*fakeQueue
	most atomic.Int64
}

func (q *strict) Publish(ctx context.Context, to synchronizer.Direction, records []synchronizer.Record) error {
	for i := range records {
		if int64(len(records[i].Payload)) > q.most.Load() {
			return fmt.Errorf("%w: %d bytes", synchronizer.ErrTooLarge, len(records[i].Payload))
		}
	}
	return q.fakeQueue.Publish(ctx, to, records)
}

// TestListsThatTheQueueDoesNotTake become several records, in which everybody is.
func TestListsThatTheQueueDoesNotTake(t *testing.T) {
	const clusters = 100
	synctest.Test(t, func(t *testing.T) {
		c := newClockWith(t, Options{KeepAlive: 10 * time.Minute, Periodic: Periodic{Every: 10 * time.Minute, MinAge: time.Minute, Batch: true}})
		q := &strict{fakeQueue: c.queue}
		q.most.Store(5000)
		c.options.Queue = q
		c.run(t)
		for i := range clusters {
			c.acceptFrom(t, fmt.Sprintf("cluster-%03d", i), "v0.0.140")
		}
		pass(10 * time.Minute)
		asked, connected := map[string]int{}, map[string]int{}
		for _, r := range c.of(synchronizer.EventReconciliationBatch) {
			m, err := queue.Decode(&r)
			require.NoError(t, err)
			for _, request := range m.Requests {
				asked[request.Cluster]++
			}
		}
		for _, r := range c.periodic() {
			m, err := queue.Decode(&r)
			require.NoError(t, err)
			for _, client := range m.Clients.Clients {
				connected[client.Cluster]++
			}
		}
		require.Len(t, asked, clusters)
		require.Equal(t, asked, connected)
		for cluster, times := range asked {
			require.Equal(t, 1, times, cluster)
		}

		// What cannot be halved any more is given up, and said.
		q.most.Store(10)
		before := len(c.queue.published())
		pass(10 * time.Minute)
		require.Len(t, c.queue.published(), before)
		require.Contains(t, c.log.String(), `msg="asking for the periodic reconciliation" clusters=100`)
		require.Contains(t, c.log.String(), `msg="publishing who is connected" clients=100`)
	})
}

// TestPeriodicWhileTheQueueIsAway: runs give up, say so, and do not gather.
func TestPeriodicWhileTheQueueIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClockWith(t, Options{KeepAlive: 5 * time.Second, Periodic: Periodic{Every: 5 * time.Second, MinAge: time.Second}})
		c.run(t)
		c.accept(t, "v0.0.140")
		c.queue.refuse(true)
		pass(15 * time.Minute)
		require.LessOrEqual(t, c.queue.waiting(), 2)
		require.Contains(t, c.log.String(), `msg="asking for the periodic reconciliation" clusters=1 error="publishing to the queue: context deadline exceeded"`)
		require.Contains(t, c.log.String(), `msg="publishing who is connected" clients=1 error="publishing to the queue: context deadline exceeded"`)
		c.queue.refuse(false)
		pass(time.Second)
		require.LessOrEqual(t, len(c.requests()), 2)
		pass(time.Minute)
		require.LessOrEqual(t, len(c.requests()), 2+12)
		require.GreaterOrEqual(t, len(c.requests()), 12)

		c.queue.refuse(true)
		pass(6 * time.Second)
		require.Positive(t, c.queue.waiting()) // the end comes in the middle of it, see the cleanup
	})
}

// TestScheduleFollowsTheWallClock, unlike all that is about elapsed time.
func TestScheduleFollowsTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offset, runs atomic.Int64
		set := func(d time.Duration) { offset.Add(int64(d)) }
		c := newClockWith(t, Options{Now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }})
		ctx, stop := context.WithCancel(t.Context())
		go c.follow(ctx, cronOf(t, "0 * * * *"), func(context.Context) { runs.Add(1) })
		expect := func(after time.Duration, want int, why string) {
			t.Helper()
			pass(after)
			require.EqualValues(t, want, runs.Load(), why)
		}
		expect(time.Hour-1, 0, "00:59:59.999999999")
		expect(1, 1, "01:00:00")
		set(-90 * time.Second)
		expect(2*time.Minute, 1, "a correction does not make it run twice")
		set(3*time.Hour + 30*time.Minute) // 04:30:30
		expect(longestNap, 2, "what lies between is one run")
		expect(30*time.Minute, 3, "05:00 was passed")
		set(-2 * time.Hour) // 03:01:30
		expect(longestNap, 3, "03:02:30")
		expect(time.Hour, 4, "04:00 again")
		stop()
		expect(10*time.Hour, 4, "it has ended")
	})
}

// TestCronAndTimers: whatever the schedule, runs come at its times and in no others.
func TestCronAndTimers(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		expression := fmt.Sprintf("%d */%d * * * *", rapid.IntRange(0, 59).Draw(r, "second"), rapid.IntRange(1, 59).Draw(r, "minutes"))
		schedule := cronOf(t, expression)
		synctest.Test(t, func(t *testing.T) {
			c := newClockWith(t, Options{})
			ctx, stop := context.WithCancel(t.Context())
			var want []time.Time
			got := make(chan time.Time, 10_000)
			end := time.Now().Add(3 * time.Hour)
			for at := schedule.Next(time.Now()); !at.After(end); at = schedule.Next(at) {
				want = append(want, at)
			}
			go c.follow(ctx, schedule, func(context.Context) { got <- time.Now().UTC().Round(0) })
			pass(3 * time.Hour)
			stop()
			synctest.Wait()
			close(got)
			var runs []time.Time
			for at := range got {
				runs = append(runs, at)
			}
			if fmt.Sprint(want) != fmt.Sprint(runs) {
				r.Fatalf("%s: %v instead of %v", expression, runs, want)
			}
		})
	})
}
