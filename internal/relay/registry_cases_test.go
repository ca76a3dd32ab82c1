// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue"
)

// TestB022OldConnectionLeavesLate: the end of a connection that was replaced takes
// nothing away from the newer one, whenever it comes.
func TestB022OldConnectionLeavesLate(t *testing.T) {
	for name, replay := range map[string]*ReplayLimits{"without replay": nil, "with replay": {}} {
		t.Run(name, func(t *testing.T) {
			repeats := 1000
			if testing.Short() || replay != nil {
				repeats = 200
			}
			fake := newFakeQueue()
			f := newFixture(t, Options{Queue: fake, Replay: replay}, nil)
			var group sync.WaitGroup
			work := make(chan int, repeats)
			for i := range repeats {
				work <- i
			}
			close(work)
			for range 16 {
				group.Go(func() {
					for i := range work {
						f.replaceOnce(t, fake, fmt.Sprintf("c%d", i))
					}
				})
			}
			group.Wait()
			require.Eventually(t, func() bool { return f.registry.count() == 0 }, limit, time.Millisecond)
			f.gauge("synchronizer_connected_clients_count", 0)
			require.Empty(t, f.drops.All())
		})
	}
}

// replaceOnce lets one connection of a cluster replace another, which ends in its
// own way about then, and speaks to the cluster afterwards.
func (f *fixture) replaceOnce(t *testing.T, fake *fakeQueue, cluster string) {
	a := f.connect("a", cluster)
	id := synchronizer.ClusterID{Account: "a", Cluster: cluster}
	if !eventually(func() bool { return f.registry.find(id) != nil }) {
		t.Error("it is not connected")
		return
	}
	first := f.registry.find(id)
	var ending sync.WaitGroup
	ending.Go(func() {
		timer := time.NewTimer(rand.N(4 * time.Millisecond))
		defer timer.Stop()
		<-timer.C
		switch rand.N(20) {
		case 0: // silent: it is given up after a while
		case 1, 2, 3, 4, 5, 6:
			_ = a.ws.CloseNow()
		default: // learns that it was replaced
			a.ws.CloseRead(t.Context())
		}
	})
	b := f.connect("a", cluster)
	defer func() { _ = b.ws.Close(1000, "") }()
	ending.Wait()
	// The first has left, by itself or because it was replaced.
	select {
	case <-first.ctx.Done():
	case <-time.After(limit):
		t.Error("the connection that was replaced is not closed")
		return
	}
	if !eventually(func() bool { c := f.registry.find(id); return c != nil && c != first }) {
		t.Error("the newer connection is forgotten")
		return
	}
	m := ask("a", cluster, "command")
	e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	r, err := e.Encode(&m, queue.Extra{})
	if err != nil {
		t.Error(err)
		return
	}
	fake.tail <- []synchronizer.Record{r}
	if frame, err := b.next(); err != nil || frame["Name"] != "command" {
		t.Errorf("the newer connection got %v, %v", frame, err)
	}
	b.send(named("heard")) // so that nothing is in doubt
	if !eventually(func() bool { return len(f.registry.allOf(id)) == 1 }) {
		t.Error("there is more than the newer connection")
	}
}

// allOf gives the open connections of a cluster.
func (r *registry) allOf(id synchronizer.ClusterID) []*connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.clusters[id]; p != nil {
		return append([]*connection(nil), p.open...)
	}
	return nil
}

// eventually is for goroutines that are not the test's.
func eventually(condition func() bool) bool {
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			return false
		}
		timer := time.NewTimer(100 * time.Microsecond)
		<-timer.C
	}
	return true
}

// TestReplacementsWarn: two clients that claim to be one cluster are named in the
// log, when that has happened more often than a flapping network explains.
func TestReplacementsWarn(t *testing.T) {
	f := newFixture(t, Options{}, nil)
	var last *client
	for range maxReplacements + 1 {
		last = f.connect("a", "c")
		last.send(named("here"))
		f.object()
	}
	require.NotContains(t, f.log.String(), "clients replace each other")
	f.connect("a", "c").send(named("here"))
	f.object()
	require.Contains(t, f.log.String(), "clients replace each other")
	require.EqualValues(t, statusReplaced, last.ended())
}

// TestB099GaugeOfConnectedClients: it is the number of clusters that are connected,
// when connections were replaced, and when the server was replaced.
func TestB099GaugeOfConnectedClients(t *testing.T) {
	const name = "synchronizer_connected_clients_count"
	q := openQueue(t)
	before := newFixture(t, Options{Queue: q}, nil)
	clusters := []string{"one", "two", "three"}
	for _, cluster := range clusters {
		for range 3 {
			before.connect("a", cluster)
		}
	}
	before.gauge(name, 3)
	require.Eventually(t, func() bool { return len(before.registry.all()) == 3 }, limit, time.Millisecond, "those that were replaced are closed")
	before.gauge(name, 3)
	before.stop()
	before.gauge(name, 0)
	for _, cluster := range clusters {
		before.metric(t, "synchronizer_client_disconnection_count", cluster, 1)
	}
	after := newFixture(t, Options{Queue: q}, nil)
	after.gauge(name, 0)
	for _, cluster := range clusters {
		after.connect("a", cluster)
	}
	after.gauge(name, 3)
	require.Empty(t, before.drops.All())
	require.Empty(t, after.drops.All())
}

// TestStopTellsClientsWhatWasAccepted: a server that stops writes what it has
// accepted for its clients and says goodbye. Who does not read cannot delay it.
func TestStopTellsClientsWhatWasAccepted(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake, BacklogBytes: 64 << 20}, func(s *Server) { s.farewellTimeout = limit })
	c := f.connect("a", "c")
	require.Eventually(t, func() bool { return f.registry.count() == 1 }, limit, time.Millisecond)
	fake.tail <- []synchronizer.Record{command(synchronizer.EventPut, "large", bulk), command(synchronizer.EventPut, "larger", bulk), command(synchronizer.EventDelete, "small", "")}
	require.Eventually(t, func() bool { return f.delivered() == 3 }, limit, time.Millisecond)
	go f.stop()
	<-f.draining.Done()
	require.Equal(t, []string{"large", "larger", "small"}, c.names(3))
	require.Equal(t, websocket.StatusGoingAway, c.ended())
	f.stop()
	for _, drop := range f.drops.All() {
		require.Contains(t, drop, "client_unheard", "only its answer may have come too late")
	}

	f = newFixture(t, Options{Queue: fake, BacklogBytes: 64 << 20}, func(s *Server) { s.farewellTimeout = time.Millisecond })
	c = f.connect("a", "c")
	require.Eventually(t, func() bool { return f.registry.count() == 1 }, limit, time.Millisecond)
	fake.tail <- []synchronizer.Record{command(synchronizer.EventPut, "large", bulk), command(synchronizer.EventDelete, "small", "")}
	require.Eventually(t, func() bool { return f.delivered() == 2 }, limit, time.Millisecond)
	f.stop()
	f.drops.Require(t, "client_disconnected: PutObject a/c /v1/configmaps demo/large", "client_disconnected: DeleteObject a/c /v1/configmaps demo/small")
	require.NoError(t, c.ws.CloseNow())
}

// TestWorkersAreApart: with several workers a record that takes long to hand over
// does not delay those of other clusters, and each client gets its own in order.
func TestWorkersAreApart(t *testing.T) {
	const clusters, each = 8, 50
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake, Workers: 4}, nil)
	var batch []synchronizer.Record
	e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	clients := make([]*client, clusters)
	for n := range each {
		for i := range clusters {
			m := ask("a", fmt.Sprint(i), fmt.Sprint(n))
			r, err := e.Encode(&m, queue.Extra{})
			require.NoError(t, err)
			batch = append(batch, r)
		}
	}
	for i := range clients {
		clients[i] = f.connect("a", fmt.Sprint(i))
	}
	require.Eventually(t, func() bool { return f.registry.count() == clusters }, limit, time.Millisecond)
	fake.tail <- batch
	for _, c := range clients {
		for n, name := range c.names(each) {
			require.Equal(t, fmt.Sprint(n), name)
		}
	}
	require.Equal(t, 1, newReplayRig(t, ReplayLimits{}, Options{Workers: 4}).workers(), "with replay")

	// Which worker has which cluster is not known, so one of many is enough.
	for workers, want := range map[int]bool{1: false, 8: true} {
		fake := newFakeQueue()
		held, release := make(chan struct{}), make(chan struct{})
		f := newFixture(t, Options{Queue: fake, Workers: workers}, func(s *Server) {
			once := sync.OnceFunc(func() { close(held) })
			s.options.Drop = func(synchronizer.DropReason, string) { once(); <-release }
		})
		for i := range clusters {
			f.connect("a", fmt.Sprint(i))
		}
		require.Eventually(t, func() bool { return f.registry.count() == clusters }, limit, time.Millisecond)
		bad := batch[0]
		bad.Properties = append([]synchronizer.Property{{Name: queue.PropertyDepth, Value: "no number"}}, bad.Properties...)
		bad.Properties[1:][indexOf(bad.Properties[1:], queue.PropertyDepth)].Value = "no number"
		fake.tail <- append([]synchronizer.Record{bad}, batch[:clusters]...)
		<-held
		if want {
			require.Eventually(t, func() bool { return f.delivered() > 0 }, limit, time.Millisecond)
		} else {
			require.Zero(t, f.delivered())
		}
		close(release)
		require.Eventually(t, func() bool { return f.delivered() == clusters }, limit, time.Millisecond)
	}
}

func indexOf(list []synchronizer.Property, name string) int {
	for i := range list {
		if list[i].Name == name {
			return i
		}
	}
	return -1
}

// TestLiveOverflowIsKept: what a slow reader has no room for is kept, and sent as
// soon as it reads, in order; another client is not delayed.
func TestLiveOverflowIsKept(t *testing.T) {
	r := newReplayRig(t, ReplayLimits{MaxBytes: 1 << 30}, Options{BacklogBytes: 1 << 20})
	slow := r.connect("a", "c")
	other := r.connect("b", "c")
	require.Eventually(t, func() bool { return r.registry.count() == 2 }, limit, time.Millisecond)
	require.Eventually(t, func() bool {
		r.replay.mu.Lock()
		defer r.replay.mu.Unlock()
		for _, c := range r.registry.all() {
			if c.phase != follows {
				return false
			}
		}
		return true
	}, limit, time.Millisecond)
	var want []string
	for i := range 4 {
		want = append(want, fmt.Sprintf("large-%d", i), fmt.Sprintf("small-%d", i))
		r.take(command(synchronizer.EventPut, want[2*i], bulk), command(synchronizer.EventDelete, want[2*i+1], ""))
	}
	m := ask("b", "c", "quick")
	e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	quick, err := e.Encode(&m, queue.Extra{})
	require.NoError(t, err)
	r.take(quick)
	require.Equal(t, []string{"quick"}, other.names(1))
	messages, _ := r.replay.held()
	require.GreaterOrEqual(t, messages, 5)
	require.Equal(t, want, slow.names(len(want)))
	r.holds(0)
	require.Empty(t, r.drops.All())
}

// TestReplacedWhileItIsWrittenTo: what an older connection took and did not write
// goes to the newer one, before what came since.
func TestReplacedWhileItIsWrittenTo(t *testing.T) {
	r := newReplayRig(t, ReplayLimits{MaxBytes: 1 << 30}, Options{BacklogBytes: 64 << 20})
	older := r.connect("a", "c")
	require.Eventually(t, func() bool { return r.registry.count() == 1 }, limit, time.Millisecond)
	want := []string{"0", "1", "2"}
	r.take(command(synchronizer.EventPut, "0", bulk), command(synchronizer.EventPut, "1", ""), command(synchronizer.EventPut, "2", bulk))
	newer := r.connect("a", "c")
	for i := 3; i < 20; i++ {
		want = append(want, fmt.Sprint(i))
		r.take(command(synchronizer.EventDelete, want[i], ""))
	}
	require.Equal(t, want, newer.names(len(want)))
	r.holds(0)
	require.Empty(t, r.drops.All())
	_ = older.ws.CloseNow()
}

// TestStopReleasesTheBacklog: a server that stops gives up what it has kept, writes
// what it is writing, and ends.
func TestStopReleasesTheBacklog(t *testing.T) {
	r := newReplayRig(t, ReplayLimits{MaxBytes: 1 << 30}, Options{BacklogBytes: 1 << 20})
	r.server().farewellTimeout = limit
	for i := range 5 {
		r.take(command(synchronizer.EventPut, fmt.Sprint(i), bulk))
	}
	c := r.connect("a", "c")
	r.metricOf("replayed", 1)
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	<-r.draining.Done()
	messages, _ := r.replay.held()
	require.LessOrEqual(t, messages, 2, "what is being sent, and what waits for its turn")
	require.Contains(t, r.log.String(), "are released")
	require.Equal(t, "0", c.names(1)[0])
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		if _, _, err := c.ws.Read(ctx); err != nil {
			require.Equal(t, websocket.StatusGoingAway, websocket.CloseStatus(err))
			break
		}
	}
	<-stopped
	r.holds(0)
	require.Zero(t, r.replay.backlog.bytes)
}

func (r *replayRig) server() *Server { return r.fixture.Server }
