// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue"
)

// replayRig is a server with replay, whose queue and clock the test has.
type replayRig struct {
	*fixture
	fake  *fakeQueue
	clock atomic.Int64 // nanoseconds since the start
}

func newReplayRig(t *testing.T, limits ReplayLimits, o Options) *replayRig {
	t.Helper()
	rig := &replayRig{fake: newFakeQueue()}
	o.Queue, o.Replay = rig.fake, &limits
	rig.fixture = newFixture(t, o, func(s *Server) {
		s.replay.now = func() time.Duration { return time.Duration(rig.clock.Load()) }
	})
	return rig
}

func (r *replayRig) pass(d time.Duration) { r.clock.Add(int64(d)) }

// take lets the server read records, and waits until it has handed them over.
func (r *replayRig) take(records ...synchronizer.Record) {
	r.t.Helper()
	r.replay.mu.Lock()
	before := r.replay.received
	r.replay.mu.Unlock()
	r.fake.tail <- records
	require.Eventually(r.t, func() bool {
		r.replay.mu.Lock()
		defer r.replay.mu.Unlock()
		return r.replay.received == before+uint64(len(records))
	}, limit, time.Millisecond)
}

// holds waits until so many messages are kept.
func (r *replayRig) holds(messages int) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { n, _ := r.replay.held(); return n == messages }, limit, time.Millisecond)
}

// command is a record of the backend for a/c.
func command(event synchronizer.Event, name, body string) synchronizer.Record {
	m := ask("a", "c", name)
	m.Event, m.MsgID = event, "m-"+name
	if body != "" {
		m.Body = []byte(body)
	}
	e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	r, err := e.Encode(&m, queue.Extra{})
	if err != nil {
		panic(err)
	}
	return r
}

// bulk is more than what the network holds, so whoever sends it waits for the reader.
var bulk = `"` + strings.Repeat("x", 8<<20) + `"`

// names reads so many frames and gives the names in them, which are often too large
// to be parsed again and again.
func (c *client) names(n int) []string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	var list []string
	for range n {
		_, raw, err := c.ws.Read(ctx)
		require.NoError(c.t, err)
		_, rest, found := bytes.Cut(raw, []byte(`"Name":"`))
		require.True(c.t, found)
		name, _, _ := bytes.Cut(rest, []byte(`"`))
		list = append(list, string(name))
	}
	return list
}

// silent makes a connection that has sent no frame yet.
func (r *replayRig) silent() *client {
	r.t.Helper()
	c := r.dial("a", "c")
	require.Eventually(r.t, func() bool { return r.registry.count() == 1 }, limit, time.Millisecond)
	return c
}

const ping = `{"Depth":0,"Event":7,"Kind":null,"MsgId":"p","AdditionalProperties":null}`

// TestB033LiveBehindTheBacklog: what comes while a backlog is being replayed to a
// slow reader waits behind it, and so does all after an attempt that failed.
func TestB033LiveBehindTheBacklog(t *testing.T) {
	want := []string{"x1", "x-deleted", "y1", "x2", "y2"}
	for name, read := range map[string]int{"all at once": 5, "cut before anything was read": 0, "cut in the middle": 1, "cut near the end": 4} {
		t.Run(name, func(t *testing.T) {
			r := newReplayRig(t, ReplayLimits{MaxBytes: 1 << 30}, Options{BacklogBytes: 1 << 20})
			r.take(command(synchronizer.EventPut, "x1", bulk), command(synchronizer.EventDelete, "x-deleted", ""), command(synchronizer.EventPut, "y1", bulk))
			r.holds(3)
			slow := r.connect("a", "c")
			r.metricOf("replayed", 1) // the first is being written and blocks
			r.take(command(synchronizer.EventPut, "x2", bulk), command(synchronizer.EventPut, "y2", bulk))
			r.holds(5)
			slow.send(named("answer"))
			require.Eventually(t, func() bool {
				return slices.ContainsFunc(r.fake.published(), func(r synchronizer.Record) bool { return r.Property("name") == "answer" })
			}, limit, time.Millisecond, "what the client says is read while the backlog drains")
			got := slow.names(read)
			if read < len(want) {
				require.NoError(t, slow.ws.CloseNow())
				require.Eventually(t, func() bool { return r.registry.count() == 0 }, limit, time.Millisecond)
				rest, _ := r.replay.held()
				require.GreaterOrEqual(t, rest, len(want)-read-1, "one more may be on its way")
				again := r.connect("a", "c")
				repeated := again.names(rest)
				require.Equal(t, want[len(want)-rest:], repeated)
				got = slices.Concat(want[:len(want)-rest], repeated)
				r.take(command(synchronizer.EventDelete, "live", ""))
				require.Equal(t, []string{"live"}, again.names(1), "nothing is sent twice on one connection")
			}
			require.Equal(t, want, got)
			r.holds(0)
			for _, drop := range r.drops.All() {
				require.Contains(t, drop, "client_unheard", "nothing is lost")
			}
		})
	}
}

// The same when the connection has room for all: a client that has not said anything
// yet may not be told anything.
func TestB033LiveBeforeTheFirstFrame(t *testing.T) {
	r := newReplayRig(t, ReplayLimits{}, Options{})
	want := []string{"x1", "x-deleted", "y1", "x2", "y2"}
	for _, name := range want[:3] {
		r.take(command(synchronizer.EventPut, name, "{}"))
	}
	c := r.silent()
	for _, name := range want[3:] {
		r.take(command(synchronizer.EventPut, name, "{}"))
	}
	r.holds(5)
	c.send(ping)
	require.Equal(t, want, c.names(5))
	r.holds(0)
}

// metricOf waits until so many records had this result.
func (r *replayRig) metricOf(result string, n float64) {
	r.t.Helper()
	r.metric(r.t, "synchronizer_relay_downward_records_total", result, n)
}

// TestB063KeptWhileAway: what comes while the client is away reaches it when it
// connects, once; clusters of the same name in other accounts are apart.
func TestB063KeptWhileAway(t *testing.T) {
	r := newReplayRig(t, ReplayLimits{}, Options{})
	other := ask("b", "c", "others")
	e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	others, err := e.Encode(&other, queue.Extra{})
	require.NoError(t, err)
	r.take(command(synchronizer.EventPut, "one", "{}"), others, command(synchronizer.EventDelete, "two", ""))
	r.metricOf("retained", 3)
	c := r.connect("a", "c")
	require.Equal(t, []string{"one", "two"}, c.names(2))
	r.holds(1)
	r.take(command(synchronizer.EventDelete, "three", ""))
	require.Equal(t, []string{"three"}, c.names(1))
	require.NoError(t, c.ws.Close(1000, ""))
	require.Eventually(t, func() bool { return r.registry.count() == 0 }, limit, time.Millisecond)
	again := r.connect("a", "c")
	require.Equal(t, []string{"others"}, r.connect("b", "c").names(1))
	r.take(command(synchronizer.EventDelete, "four", ""))
	require.Equal(t, []string{"four"}, again.names(1), "nothing of before")
	require.Empty(t, r.drops.All())

	// Without replay it is lost.
	f := newFixture(t, Options{Queue: newFakeQueue()}, nil)
	require.Nil(t, f.replay)
	f.options.Queue.(*fakeQueue).tail <- []synchronizer.Record{command(synchronizer.EventPut, "one", "{}")}
	f.metric(t, "synchronizer_relay_downward_records_total", "not_connected_here", 1)
}

// TestReplayOfEachEvent: the six events about objects and lists of objects are kept,
// nothing else is, and what is malformed is refused at once.
func TestReplayOfEachEvent(t *testing.T) {
	r := newReplayRig(t, ReplayLimits{}, Options{})
	events := []synchronizer.Event{synchronizer.EventPut, synchronizer.EventPatch, synchronizer.EventDelete, synchronizer.EventGet, synchronizer.EventVerify}
	for _, event := range events {
		r.take(command(event, event.String(), "{}"))
	}
	secrets := synchronizer.Kind{Version: "v1", Resource: "secrets"}
	r.take(listOf(t, "c", 2, configMaps, secrets))
	r.holds(6)

	with := func(name, value string) synchronizer.Record {
		record := command(synchronizer.EventGet, "bad", "")
		for i := range record.Properties {
			if record.Properties[i].Name == name {
				record.Properties[i].Value = value
			}
		}
		return record
	}
	e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	request, err := e.Encode(&synchronizer.Message{
		Event: synchronizer.EventReconciliation, ServerInitiated: true, ClusterID: synchronizer.ClusterID{Account: "a", Cluster: "c"},
	}, queue.Extra{})
	require.NoError(t, err)
	refused := []synchronizer.Record{
		with("event", "Nonsense"), with("event", "ServerConnected"), with("event", "ConnectedClients"), with("event", "Batch"), with("event", "Ping"),
		with("resource", "a/b"), with("account", ""), with("x-encoding", "future"), with("x-depth", "8"), request,
		{Key: "a/c", Properties: command(synchronizer.EventReconciliation, "bad", "").Properties, Payload: []byte("{")},
	}
	r.fake.tail <- refused
	require.Eventually(t, func() bool { return len(r.drops.All()) == len(refused) }, limit, time.Millisecond)
	for _, drop := range r.drops.All() {
		require.NotContains(t, drop, "replay_", "%s", drop)
	}
	messages, _ := r.replay.held()
	require.Equal(t, 6, messages)

	c := r.connect("a", "c")
	require.Equal(t, []string{"PutObject", "PatchObject", "DeleteObject", "GetObject", "VerifyObject"}, c.names(5))
	for _, kind := range []string{"configmaps", "secrets"} {
		frame, err := c.next()
		require.NoError(t, err)
		require.Equal(t, kind, frame["Kind"].(map[string]any)["Resource"])
		require.Len(t, frame["Items"].(map[string]any)["NewChecksum"], 2)
	}
	r.holds(0)
}

// TestReplayWaitsForTheFirstFrame: before a client has said something nothing is
// written to it, and nothing is selected, since it may expire meanwhile.
func TestReplayWaitsForTheFirstFrame(t *testing.T) {
	r := newReplayRig(t, ReplayLimits{TTL: time.Minute}, Options{})
	r.take(command(synchronizer.EventDelete, "old", ""))
	r.pass(time.Minute - time.Second)
	r.take(command(synchronizer.EventDelete, "young", ""))
	c := r.silent()
	r.take(command(synchronizer.EventDelete, "live", ""))
	r.holds(3)
	r.pass(time.Second)
	c.send(ping)
	require.Equal(t, []string{"young", "live"}, c.names(2))
	r.drops.Require(t, "replay_expired: DeleteObject a/c /v1/configmaps demo/old")
}

// TestB092ReplayHasItsOwnClock: how long a message is kept depends on neither its
// time stamp nor the wall clock.
func TestB092ReplayHasItsOwnClock(t *testing.T) {
	var wall atomic.Int64
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := newReplayRig(t, ReplayLimits{TTL: time.Minute}, Options{Now: func() time.Time { return base.Add(time.Duration(wall.Load())) }})
	stamped := func(name string, change func(*synchronizer.Property) bool) {
		record := command(synchronizer.EventDelete, name, "")
		record.Properties = slices.DeleteFunc(record.Properties, func(p synchronizer.Property) bool {
			return p.Name == queue.PropertyTimestamp && change != nil && change(&p)
		})
		r.take(record)
	}
	as := func(value string) func(*synchronizer.Property) bool {
		return func(p *synchronizer.Property) bool { p.Value = value; return false }
	}
	stamped("past", as(time.Now().Add(-time.Hour).Format(time.RFC3339Nano)))
	stamped("future", as(time.Now().Add(time.Hour).Format(time.RFC3339Nano)))
	stamped("zero", as(time.Time{}.Format(time.RFC3339Nano)))
	stamped("missing", func(*synchronizer.Property) bool { return true })
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour, time.Hour} {
		wall.Add(int64(step))
		r.pass(time.Second)
		r.replay.expire()
		r.holds(4)
	}
	c := r.connect("a", "c")
	require.Equal(t, []string{"past", "future", "zero", "missing"}, c.names(4))
	require.NoError(t, c.ws.Close(1000, ""))
	require.Eventually(t, func() bool { return r.registry.count() == 0 }, limit, time.Millisecond)
	stamped("past", as(time.Now().Add(-time.Hour).Format(time.RFC3339Nano)))
	stamped("future", as(time.Now().Add(time.Hour).Format(time.RFC3339Nano)))
	r.pass(time.Minute - 1)
	r.replay.expire()
	r.holds(2)
	r.pass(1)
	r.holds(0) // swept without anything else that happens
	r.drops.Require(t, "replay_expired: DeleteObject a/c /v1/configmaps demo/past", "replay_expired: DeleteObject a/c /v1/configmaps demo/future")
}

// The clock that a server has by itself is not the wall clock either.
func TestB092ReplayIgnoresTheWallClock(t *testing.T) {
	var wall atomic.Int64
	fake := newFakeQueue()
	f := newFixture(t, Options{
		Queue: fake, Replay: &ReplayLimits{TTL: time.Hour / 2},
		Now: func() time.Time { return time.Now().Round(0).Add(time.Duration(wall.Load())) },
	}, nil)
	fake.tail <- []synchronizer.Record{command(synchronizer.EventDelete, "kept", "")}
	require.Eventually(t, func() bool { n, _ := f.replay.held(); return n == 1 }, limit, time.Millisecond)
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour} {
		wall.Add(int64(step))
		f.replay.expire()
		require.Less(t, f.replay.now(), time.Hour/2)
		n, _ := f.replay.held()
		require.Equal(t, 1, n)
	}
	require.Equal(t, []string{"kept"}, f.connect("a", "c").names(1))
	require.Empty(t, f.drops.All())
}

// TestB099ReplayDrops: each message that is not kept is counted once, by its reason.
func TestB099ReplayDrops(t *testing.T) {
	// The time of a record has not always the same number of digits.
	of := func(i int) synchronizer.Record {
		record := command(synchronizer.EventPut, fmt.Sprint(i), strings.Repeat("x", 1000))
		for i := range record.Properties {
			if record.Properties[i].Name == queue.PropertyTimestamp {
				record.Properties[i].Value = "2026-01-01T00:00:00Z"
			}
		}
		return record
	}
	size := packedSize(new(of(0)))
	r := newReplayRig(t, ReplayLimits{TTL: time.Minute, MaxMessages: 10, MaxMessagesPerClient: 3, MaxBytes: 4 * size}, Options{})
	for i := range 5 {
		r.take(of(i))
	}
	r.holds(3)
	r.drops.Require(t, "replay_capacity: PutObject a/c /v1/configmaps demo/0", "replay_capacity: PutObject a/c /v1/configmaps demo/1")
	r.drops.Reset()
	r.take(command(synchronizer.EventPut, "huge", strings.Repeat("x", 5000)))
	r.drops.Require(t, "replay_oversized: PutObject a/c /v1/configmaps demo/huge")
	r.drops.Reset()
	elsewhere := ask("a", "d", "large")
	elsewhere.Event, elsewhere.Body = synchronizer.EventPut, []byte(strings.Repeat("x", 2*1000))
	e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	large, err := e.Encode(&elsewhere, queue.Extra{})
	require.NoError(t, err)
	r.take(large)
	r.drops.Require(t, "replay_capacity: PutObject a/c /v1/configmaps demo/2")
	r.drops.Reset()
	r.holds(3)
	r.gauge("synchronizer_relay_replay_messages", 3)
	r.gauge("synchronizer_relay_replay_bytes", float64(2*size+packedSize(&large)))
	r.pass(time.Minute)
	r.holds(0)
	r.drops.Require(t, "replay_expired: PutObject a/c /v1/configmaps demo/3", "replay_expired: PutObject a/c /v1/configmaps demo/4", "replay_expired: PutObject a/d /v1/configmaps demo/large")
	r.gauge("synchronizer_relay_replay_bytes", 0)
}

// gauge waits until a metric without labels has this value.
func (f *fixture) gauge(name string, want float64) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		families, err := f.reg.Gather()
		require.NoError(f.t, err)
		for _, family := range families {
			if family.GetName() == name {
				return family.GetMetric()[0].GetGauge().GetValue() == want
			}
		}
		return false
	}, limit, time.Millisecond, name)
}
