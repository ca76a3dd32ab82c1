// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link/linktest"
	"synchronizer/internal/link/stock"
	"synchronizer/internal/queue"
)

// silentLink is a client that says nothing, until it is closed.
type silentLink struct {
	synchronizer.Link
	gone chan struct{}
}

func (l silentLink) Receive(ctx context.Context) (synchronizer.Message, error) {
	select {
	case <-l.gone:
		return synchronizer.Message{}, synchronizer.ErrDisconnected
	case <-ctx.Done():
		return synchronizer.Message{}, ctx.Err()
	}
}

func (l silentLink) Close(int, string) error {
	select {
	case <-l.gone:
	default:
		close(l.gone)
	}
	return nil
}

// clock is a server without a network, for time that passes in a bubble.
type clock struct {
	*Server
	queue *fakeQueue
	drops linktest.Drops
	log   logs
}

func newClock(t *testing.T, after time.Duration) *clock {
	return newClockWith(t, Options{ReconcileAfter: after})
}

func newClockWith(t *testing.T, o Options) *clock {
	c := &clock{queue: newFakeQueue()}
	o.Queue, o.QueueName, o.Encoding, o.Authenticator, o.ServerName = c.queue, "fake", queue.Compact, Anonymous{}, "server-1"
	o.UpwardBytes, o.BacklogBytes = 1<<20, 1<<20
	o.Logger, o.Registerer, o.Drop = slog.New(slog.NewTextHandler(&c.log, nil)), prometheus.NewRegistry(), c.drops.Drop
	c.Server = New(o)
	t.Cleanup(c.close)
	return c
}

// run starts what the server does regularly.
func (c *clock) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	synctest.Wait()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

// accept does what ServeHTTP does with a connection once it has its link.
func (c *clock) accept(t *testing.T, version string) (leave func()) {
	return c.acceptFrom(t, "c", version)
}

func (c *clock) acceptFrom(t *testing.T, cluster, version string) (leave func()) {
	conn := &connection{
		server: c.Server, source: "s", since: c.options.Now(), opened: time.Now(), link: silentLink{gone: make(chan struct{})},
		hello: synchronizer.Hello{ClusterID: synchronizer.ClusterID{Account: "a", Cluster: cluster}, SynchronizerVersion: version},
	}
	conn.ctx, conn.end = context.WithCancel(context.WithoutCancel(t.Context()))
	conn.up = newPump(c.options.UpwardBytes, conn.publish)
	conn.down = newPump(c.options.BacklogBytes, conn.send)
	require.True(t, c.enter())
	done, err := c.registry.enter(t.Context(), conn.id())
	require.NoError(t, err)
	older, replacements := c.registry.add(conn, conn.opened)
	done()
	go c.serve(conn, older, replacements, c.open.Done)
	synctest.Wait()
	return func() {
		_ = conn.link.Close(0, "")
		synctest.Wait()
	}
}

// requests are the reconciliations that were asked for.
func (c *clock) requests() (list []synchronizer.Record) {
	synctest.Wait()
	for _, r := range c.queue.published() {
		if r.Property(queue.PropertyEvent) == "ReconciliationRequest" {
			list = append(list, r)
		}
	}
	return list
}

func pass(d time.Duration) {
	time.Sleep(d) // in a bubble
	synctest.Wait()
}

// TestReconcileAfterConnect: one request per connection, after the delay and up to
// a fifth more.
func TestReconcileAfterConnect(t *testing.T) {
	late := false
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			c := newClock(t, 30*time.Second)
			c.accept(t, "v0.0.57")
			pass(30*time.Second - time.Nanosecond)
			require.Empty(t, c.requests())
			pass(time.Second)
			late = late || len(c.requests()) == 0
			pass(5*time.Second + time.Nanosecond)
			require.Len(t, c.requests(), 1)
			pass(time.Hour)
			require.Len(t, c.requests(), 1)
		})
	}
	require.True(t, late, "there is no jitter")
}

// TestReconcileRequest is the record that servers in the field publish.
func TestReconcileRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(t, time.Second)
		c.accept(t, "v1.2.3")
		pass(2 * time.Second)
		got := c.requests()
		require.Len(t, got, 1)
		for _, recorded := range readLines[recordedRecord](t, "../queue/testdata/records-pulsar.jsonl") {
			if recorded.Direction != "server->broker" || recorded.Properties["event"] != "ReconciliationRequest" {
				continue
			}
			var want, have map[string]any
			require.NoError(t, json.Unmarshal(recorded.Payload, &want))
			require.NoError(t, json.Unmarshal(got[0].Payload, &have))
			require.Len(t, have["msgId"], len(want["msgId"].(string)))
			want["account"], want["cluster"], want["msgId"] = "a", "c", have["msgId"]
			require.Equal(t, want, have)
			for name := range recorded.Properties {
				require.NotEmpty(t, got[0].Property(name), name)
			}
			require.Equal(t, "a/c", got[0].Key)
			return
		}
		require.Fail(t, "no request was recorded")
	})
}

// TestReconcileVersions: clients must say v<semver>, v0.0.57 or newer.
func TestReconcileVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"v0.0.57": true, "v0.0.140": true, "v1.0.0": true, "v0.1.0-rc.1": true, "v0.0.58+build": true,
		"v0.0.56": false, "v0.0.57-rc.1": false, "0.0.140": false, "": false, "v": false, "vx": false, "latest": false, "v1.2": false, "V0.0.57": false,
	} {
		require.Equal(t, want, reconciles(version), version)
	}
	synctest.Test(t, func(t *testing.T) {
		c := newClock(t, time.Second)
		c.accept(t, "v0.0.56")
		pass(time.Hour)
		require.Empty(t, c.requests())
	})
}

// TestReconcileIsCancelled when the connection closes, is replaced or the server
// stops, and is never asked for when it is off.
func TestReconcileIsCancelled(t *testing.T) {
	const after = 10 * time.Second
	for name, test := range map[string]struct {
		after time.Duration
		run   func(t *testing.T, c *clock)
		want  int
	}{
		"closed": {after, func(t *testing.T, c *clock) {
			leave := c.accept(t, "v0.0.57")
			pass(after - 1)
			leave()
		}, 0},
		"replaced": {after, func(t *testing.T, c *clock) {
			c.accept(t, "v0.0.57")
			pass(after - 1)
			c.accept(t, "v0.0.57")
		}, 1},
		"replaced by one that is too old": {after, func(t *testing.T, c *clock) {
			c.accept(t, "v0.0.57")
			c.accept(t, "v0.0.1")
		}, 0},
		"stopped": {after, func(t *testing.T, c *clock) {
			c.accept(t, "v0.0.57")
			pass(after - 1)
			c.close()
		}, 0},
		"stopped while the queue refuses": {after, func(t *testing.T, c *clock) {
			c.accept(t, "v0.0.57")
			c.queue.refuse(true)
			pass(after + after/5)
			c.close()
		}, 0},
		"closed while the request waits for its turn": {after, func(t *testing.T, c *clock) {
			leave := c.accept(t, "v0.0.57")
			conn := c.registry.find(synchronizer.ClusterID{Account: "a", Cluster: "c"})
			pass(after - 1)
			c.queue.refuse(true)
			require.NoError(t, conn.forward(conn.ctx, &synchronizer.Message{Event: synchronizer.EventVerify, Kind: configMaps, Name: "kept"}, "m", 1))
			pass(after/5 + 1)
			require.Equal(t, 1, c.queue.waiting())
			leave()
			c.queue.refuse(false)
			synctest.Wait()
			require.Len(t, c.of(synchronizer.EventVerify), 1, "what the client said is published all the same")
			require.True(t, c.debts.has(conn.id()), "it is owed to the next connection")
		}, 0},
		"off":      {0, func(t *testing.T, c *clock) { c.accept(t, "v0.0.57") }, 0},
		"negative": {-time.Second, func(t *testing.T, c *clock) { c.accept(t, "v0.0.57") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClock(t, test.after)
				test.run(t, c)
				pass(2 * after)
				require.Len(t, c.requests(), test.want)
			})
		})
	}
}

// TestReconcileAfterARefusal: what the queue refused is made up for after the next
// connect, once, also when nothing is configured.
func TestReconcileAfterARefusal(t *testing.T) {
	for name, after := range map[string]time.Duration{"off": 0, "later": time.Hour, "sooner": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClock(t, after)
				c.accept(t, "v0.0.57")
				conn := c.registry.find(synchronizer.ClusterID{Account: "a", Cluster: "c"})
				c.queue.refuse(true)
				require.NoError(t, conn.forward(conn.ctx, &synchronizer.Message{Event: synchronizer.EventVerify, Kind: configMaps, Name: "lost"}, "m", 1))
				pass(publishTimeout + flushTimeout)
				require.Contains(t, c.drops.All(), "queue_refused: VerifyObject a/c configmaps /lost")
				require.Zero(t, c.registry.count())
				require.Empty(t, c.requests())

				// Refused again, the request is owed still.
				leave := c.accept(t, "v0.0.57")
				pass(repairAfter + repairAfter/5 + publishTimeout + flushTimeout)
				require.Zero(t, c.registry.count())
				require.Empty(t, c.requests())
				leave()

				c.queue.refuse(false)
				leave = c.accept(t, "v0.0.57")
				pass(repairAfter + repairAfter/5)
				require.Len(t, c.requests(), 1)
				leave()
				c.accept(t, "v0.0.57")
				pass(2 * repairAfter)
				want := 1
				if after == time.Second {
					want = 2
				}
				require.Len(t, c.requests(), want, "it is owed once")
			})
		})
	}
}

// TestListsLikeTheField hands down every list that was recorded on the broker, and
// compares the batches with those of a server in the field.
func TestListsLikeTheField(t *testing.T) {
	type batch struct {
		scenario, msgID, kind string
	}
	var f recordedFrame
	want := map[batch]json.RawMessage{}
	for _, f = range readLines[recordedFrame](t, "../wire/testdata/frames-v1.jsonl") {
		var frame struct {
			MsgID, BatchType string
			Kind             *struct{ Group, Version, Resource string }
		}
		if f.Dir != "server->client" || json.Unmarshal(f.Frame, &frame) != nil || frame.BatchType != "reconciliation" {
			continue
		}
		want[batch{f.Scenario, frame.MsgID, frame.Kind.Group + "/" + frame.Kind.Version + "/" + frame.Kind.Resource}] = f.Frame
	}
	require.NotEmpty(t, want)
	fake := newFakeQueue()
	fx := newFixture(t, Options{Queue: fake}, nil)
	compared := 0
	for _, recorded := range readLines[recordedRecord](t, "../queue/testdata/records-pulsar.jsonl") {
		if recorded.Direction != "test->broker" || recorded.Properties["event"] != "ReconciliationRequest" {
			continue
		}
		r := synchronizer.Record{Key: recorded.Key, Payload: recorded.Payload}
		for name, value := range recorded.Properties {
			r.Properties = append(r.Properties, synchronizer.Property{Name: name, Value: value})
		}
		m, err := queue.Decode(&r)
		if err != nil {
			continue // a kind without slashes
		}
		c := fx.connect(m.Account, m.Cluster)
		require.Eventually(t, func() bool { return fx.registry.find(m.ClusterID) != nil }, limit, time.Millisecond)
		fake.tail <- []synchronizer.Record{r}
		for kind, known := range m.Known {
			if len(known) == 0 {
				continue // servers in the field send it, clients refuse it
			}
			frame, err := c.next()
			require.NoError(t, err)
			got := frame["Kind"].(map[string]any)
			raw, ok := want[batch{recorded.Scenario, m.MsgID, fmt.Sprintf("%s/%s/%s", got["Group"], got["Version"], got["Resource"])}]
			require.True(t, ok, "%s %s", recorded.Scenario, kind)
			var expected map[string]any
			require.NoError(t, json.Unmarshal(raw, &expected))
			require.Equal(t, expected, frame)
			compared++
		}
		require.NoError(t, c.ws.Close(1000, ""))
		require.Eventually(t, func() bool { return fx.registry.find(m.ClusterID) == nil }, limit, time.Millisecond)
	}
	require.GreaterOrEqual(t, compared, 10)
	for _, drop := range fx.drops.All() {
		// Empty ones, and null; and the client leaves without another word.
		require.True(t, strings.HasPrefix(drop, "unsupported: ") || strings.HasPrefix(drop, "client_unheard: "), drop)
	}
}

// listOf is a record that lists so many objects of each kind.
func listOf(t *testing.T, cluster string, objects int, kinds ...synchronizer.Kind) synchronizer.Record {
	t.Helper()
	m := synchronizer.Message{
		Event: synchronizer.EventReconciliation, MsgID: "list", ServerInitiated: true,
		ClusterID: synchronizer.ClusterID{Account: "a", Cluster: cluster}, Known: map[synchronizer.Kind][]synchronizer.KnownObject{},
	}
	for _, kind := range kinds {
		known := make([]synchronizer.KnownObject, objects)
		for i := range known {
			known[i] = synchronizer.KnownObject{Namespace: "demo", Name: fmt.Sprintf("object-%06d", i), ResourceVersion: int64(i), Checksum: strings.Repeat("0f", 32)}
		}
		m.Known[kind] = known
	}
	e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	r, err := e.Encode(&m, queue.Extra{})
	require.NoError(t, err)
	return r
}

// TestListsAreBounded: a list may reach beyond the backlog of a client by itself,
// but the next one has no room; then the client reconciles later.
func TestListsAreBounded(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake, BacklogBytes: 1 << 20}, nil)
	slow := stock.Connect(t, f.url, stock.ClientOptions{Account: "a", Cluster: "c", HoldReading: true})
	require.Eventually(t, func() bool { return f.registry.count() == 1 }, limit, time.Millisecond)
	conn := f.registry.find(synchronizer.ClusterID{Account: "a", Cluster: "c"})
	secrets := synchronizer.Kind{Version: "v1", Resource: "secrets"}
	small := listOf(t, "c", 10, configMaps)
	fake.tail <- []synchronizer.Record{small, listOf(t, "c", 40_000, secrets), listOf(t, "c", 10, configMaps), listOf(t, "elsewhere", 1, configMaps)}
	require.Eventually(t, func() bool { return len(f.drops.All()) == 1 }, limit, time.Millisecond)
	f.drops.Require(t, "client_backlog_full: ReconciliationRequest a/c /v1/configmaps (10 objects)")
	conn.request.mu.Lock()
	require.NotNil(t, conn.request.repair)
	conn.request.mu.Unlock()
	f.metric(t, "synchronizer_relay_downward_records_total", "not_connected_here", 1)
	slow.Resume()
	got := slow.Wait(func(frame *stock.Frame) bool { return frame.Kind != nil && frame.Kind.Resource == "secrets" })
	require.Len(t, got.Items.NewChecksum, 40_000)
	require.Equal(t, 1, got.Depth)
	require.Equal(t, "list", got.MsgId)
	require.Len(t, slow.Received(), 2)
}

// TestListsThatAreNotHandedDown are counted and named, and end nothing.
func TestListsThatAreNotHandedDown(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake, Link: linkOptions(1 << 20), BacklogBytes: 8 << 20}, nil)
	old := stock.Connect(t, f.url, stock.ClientOptions{Account: "a", Cluster: "old", Version: "v0.0.56"})
	c := f.connect("a", "c")
	require.Eventually(t, func() bool { return f.registry.count() == 2 }, limit, time.Millisecond)
	fake.tail <- []synchronizer.Record{
		listOf(t, "old", 1, configMaps), listOf(t, "c", 0, configMaps), listOf(t, "c", 10_000, configMaps), listOf(t, "c", 3, configMaps),
	}
	frame, err := c.next()
	require.NoError(t, err)
	require.Len(t, frame["Items"].(map[string]any)["NewChecksum"], 3)
	f.drops.Require(t, "unsupported: ReconciliationRequest a/old", "unsupported: ReconciliationRequest a/c /v1/configmaps (0 objects)",
		"too_large: to the peer: /v1/configmaps (reconciliation batch)")
	require.Empty(t, old.Received())
}
