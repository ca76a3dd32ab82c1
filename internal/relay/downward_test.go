// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link/stock"
	"synchronizer/internal/queue"
)

// TestDownwardToTheNewest: of two clients of one cluster only the newer one is
// spoken to; the older one is told that it was replaced, and its end changes nothing.
func TestDownwardToTheNewest(t *testing.T) {
	f := newFixture(t, Options{}, nil)
	older := f.connect("a", "c")
	older.send(named("older"))
	require.Equal(t, "older", property(f.object(), "name"))
	newer := f.connect("a", "c")
	newer.send(named("newer"))
	require.Equal(t, "newer", property(f.object(), "name"))

	f.down(ask("a", "c", "one"))
	frame, err := newer.next()
	require.NoError(t, err)
	require.Equal(t, "one", frame["Name"])
	require.EqualValues(t, 3, frame["Depth"])
	require.Equal(t, "get-one", frame["MsgId"])
	require.EqualValues(t, 4, frame["Event"])

	require.EqualValues(t, statusReplaced, older.ended())
	f.down(ask("a", "c", "two"))
	frame, err = newer.next()
	require.NoError(t, err)
	require.Equal(t, "two", frame["Name"])

	require.NoError(t, newer.ws.Close(1000, ""))
	require.Eventually(t, func() bool { return f.registry.count() == 0 }, limit, time.Millisecond)
	f.down(ask("a", "c", "nobody"))
	f.metric(t, "synchronizer_relay_downward_records_total", "not_connected_here", 1)
	f.metric(t, "synchronizer_client_disconnection_count", "a", 1)
	require.Empty(t, f.drops.All())
}

func property(r synchronizer.Record, name string) string { return r.Property(name) }

// metric waits until the series that has a label of this value has this value.
func (f *fixture) metric(t *testing.T, name, label string, want float64) {
	t.Helper()
	require.Eventually(t, func() bool {
		families, err := f.reg.Gather()
		require.NoError(t, err)
		for _, family := range families {
			for _, m := range family.GetMetric() {
				for _, l := range m.GetLabel() {
					if family.GetName() == name && l.GetValue() == label && m.GetCounter().GetValue() == want {
						return true
					}
				}
			}
		}
		return false
	}, limit, time.Millisecond, "%s{%s}", name, label)
}

// TestDownwardRefuses what must not reach a client: each is counted, and the
// next record arrives.
func TestDownwardRefuses(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake}, nil)
	c := f.connect("a", "c")
	require.Eventually(t, func() bool { return f.registry.count() == 1 }, limit, time.Millisecond)
	encode := func(p queue.Producer, m synchronizer.Message) synchronizer.Record {
		e := queue.Encoder{Encoding: queue.Compact, Producer: p}
		r, err := e.Encode(&m, queue.Extra{})
		require.NoError(t, err)
		return r
	}
	with := func(name, value string) synchronizer.Record {
		r := encode(queue.Backend, ask("a", "c", "bad"))
		for i := range r.Properties {
			if r.Properties[i].Name == name {
				r.Properties[i].Value = value
			}
		}
		return r
	}
	deep := ask("a", "c", "deep")
	deep.Depth = 8
	for _, test := range []struct {
		name   string
		record synchronizer.Record
		drop   string
	}{
		{"made by a server", encode(queue.Server, ask("a", "c", "own")), ""},
		{"key of an older server", synchronizer.Record{Key: queue.ServerProducerKey, Properties: with("", "").Properties}, ""},
		{"too deep", encode(queue.Backend, deep), "too_deep: GetObject a/c /v1/configmaps demo/deep"},
		{"kind of one word", with("resource", ""), "malformed"},
		{"kind with a slash", with("resource", "a/b"), "malformed"},
		{"event missing", with("event", ""), "unknown_event"},
		{"event unknown", with("event", "Nonsense"), "unknown_event"},
		{"event not for clients", with("event", "ServerConnected"), "malformed"},
		{"request of the backend", encode(queue.Backend, synchronizer.Message{Event: synchronizer.EventReconciliation, ServerInitiated: true, ClusterID: c.id("a", "c")}), "unsupported"},
		{"encoding unknown", with("x-encoding", "future"), "malformed"},
		{"no account", with("account", ""), "malformed"},
		{"no properties", synchronizer.Record{Key: "a/c", Payload: []byte("{")}, "unknown_event"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f.drops.Reset()
			fake.tail <- []synchronizer.Record{test.record, encode(queue.Backend, ask("a", "c", "after"))}
			frame, err := c.next()
			require.NoError(t, err)
			require.Equal(t, "after", frame["Name"])
			if test.drop == "" {
				require.Empty(t, f.drops.All())
			} else {
				f.drops.Require(t, test.drop)
			}
		})
	}
}

func (*client) id(account, cluster string) synchronizer.ClusterID {
	return synchronizer.ClusterID{Account: account, Cluster: cluster}
}

// TestDownwardBacklog: a client that does not read has its backlog, what is
// beyond is counted, and another client is not held up.
func TestDownwardBacklog(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake, BacklogBytes: 1 << 20}, nil)
	slow := stock.Connect(t, f.url, stock.ClientOptions{Account: "a", Cluster: "slow", HoldReading: true})
	quick := f.connect("b", "slow")
	require.Eventually(t, func() bool { return f.registry.count() == 2 }, limit, time.Millisecond)

	e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	body := []byte(`"` + strings.Repeat("x", 200<<10) + `"`)
	sent := 0
	for len(f.drops.All()) == 0 {
		m := ask("a", "slow", fmt.Sprint(sent))
		m.Event, m.Body = synchronizer.EventPut, body
		r, err := e.Encode(&m, queue.Extra{})
		require.NoError(t, err)
		other := ask("b", "slow", fmt.Sprint(sent))
		next, err := e.Encode(&other, queue.Extra{})
		require.NoError(t, err)
		fake.tail <- []synchronizer.Record{r, next}
		frame, err := quick.next()
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(sent), frame["Name"])
		sent++
		require.Less(t, sent, 1000, "the backlog has no bound")
	}
	f.drops.Require(t, "client_backlog_full: PutObject a/slow /v1/configmaps demo/"+fmt.Sprint(sent-1))
	// All that was accepted arrives, in order, once it reads.
	slow.Resume()
	slow.Wait(func(frame *stock.Frame) bool { return frame.Name == fmt.Sprint(sent-2) })
	for i, frame := range slow.Received() {
		require.Equal(t, fmt.Sprint(i), frame.Name)
	}
	require.EqualValues(t, 2*sent-1, f.delivered())
}

// TestDownwardOfAClientThatLeaves: what waits for it is counted when it goes.
func TestDownwardOfAClientThatLeaves(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake, BacklogBytes: 4 << 20}, nil)
	slow := stock.Connect(t, f.url, stock.ClientOptions{Account: "a", Cluster: "c", HoldReading: true})
	require.Eventually(t, func() bool { return f.registry.count() == 1 }, limit, time.Millisecond)
	e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	var records []synchronizer.Record
	for i := range 3 {
		m := ask("a", "c", fmt.Sprint(i))
		m.Event, m.Body = synchronizer.EventPut, []byte(`"`+strings.Repeat("x", 16<<20)+`"`)
		if i > 0 {
			m.Body = []byte("{}")
		}
		r, err := e.Encode(&m, queue.Extra{})
		require.NoError(t, err)
		records = append(records, r)
	}
	fake.tail <- records[:1] // larger than what the network holds: its Send blocks
	require.Eventually(t, func() bool { return f.delivered() == 1 }, limit, time.Millisecond)
	fake.tail <- records[1:]
	require.Eventually(t, func() bool { return len(f.drops.All()) == 2 }, limit, time.Millisecond, "the backlog holds one record above its limit")
	f.drops.Reset()
	slow.Cut()
	f.drops.Require(t, "client_disconnected: PutObject a/c /v1/configmaps demo/0")
}

// TestDownwardThatCannotBeWritten: one message that the link refuses ends
// nothing and is counted once.
func TestDownwardThatCannotBeWritten(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake, Link: linkOptions(1 << 20), BacklogBytes: 8 << 20}, nil)
	c := f.connect("a", "c")
	require.Eventually(t, func() bool { return f.registry.count() == 1 }, limit, time.Millisecond)
	conn := f.registry.find(synchronizer.ClusterID{Account: "a", Cluster: "c"})
	big := ask("a", "c", "big")
	big.Event, big.Body = synchronizer.EventPut, []byte(strings.Repeat("x", 2<<20))
	unwritable := ask("a", "c", "unwritable")
	unwritable.Event = synchronizer.EventReconciliation
	for _, m := range []synchronizer.Message{big, unwritable, ask("a", "c", "after")} {
		ok, err := conn.offer(parcel{messages: []synchronizer.Message{m}})
		require.NoError(t, err)
		require.True(t, ok)
	}
	frame, err := c.next()
	require.NoError(t, err)
	require.Equal(t, "after", frame["Name"])
	require.Len(t, f.drops.All(), 2, "%q", f.drops.All())
}

// TestTailErrors: the queue may fail for a while.
func TestTailErrors(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake}, nil)
	results := []error{errors.New("broker is away"), errors.New("broker is away"), fmt.Errorf("reading: %w", synchronizer.ErrClosed)}
	tail := &scriptedTail{results: results}
	require.ErrorIs(t, f.Server.tail(t.Context(), tail), synchronizer.ErrClosed)
	require.Empty(t, tail.results)
	require.Contains(t, f.log.String(), "trying again")
}

type scriptedTail struct {
	fakeTail
	results []error
}

func (s *scriptedTail) Next(_ context.Context) ([]synchronizer.Record, error) {
	err := s.results[0]
	s.results = s.results[1:]
	return nil, err
}

// TestAccountsAreApart: ten clients of ten accounts, all with the same cluster
// name; each gets what is meant for it, and is stored as itself.
func TestAccountsAreApart(t *testing.T) {
	const clients, each = 10, 20
	f := newFixture(t, Options{}, nil)
	var group sync.WaitGroup
	for i := range clients {
		account := fmt.Sprintf("account-%d", i)
		c := f.connect(account, "same")
		group.Go(func() {
			for n := range each {
				c.send(named(fmt.Sprintf("%s-%d", account, n)))
			}
		})
		group.Go(func() {
			for n := range each {
				frame, err := c.next()
				if err != nil || frame["Name"] != fmt.Sprintf("for-%s-%d", account, n) {
					t.Errorf("%s got %v, %v", account, frame, err)
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool { return f.registry.count() == clients }, limit, time.Millisecond)
	for n := range each {
		var msgs []synchronizer.Message
		for i := range clients {
			account := fmt.Sprintf("account-%d", i)
			msgs = append(msgs, ask(account, "same", fmt.Sprintf("for-%s-%d", account, n)))
		}
		f.down(msgs...)
	}
	seen := map[string]int{}
	for range clients * each {
		r := f.object()
		account := r.Property("account")
		require.Equal(t, fmt.Sprintf("%s-%d", account, seen[account]), r.Property("name"), "in order, under its own account")
		require.Equal(t, account+"/same", r.Key)
		seen[account]++
		require.Equal(t, fmt.Sprint(seen[account]), r.Property(queue.PropertySeq))
	}
	group.Wait()
	require.Empty(t, f.drops.All())
}

// TestIngesterPresence: an ingester's announcement counts for half a minute.
func TestIngesterPresence(t *testing.T) {
	var clock atomic.Int64
	clock.Store(1)
	f := newFixture(t, Options{}, func(s *Server) { s.elapsed = func() time.Duration { return time.Duration(clock.Load()) } })
	require.False(t, f.IngesterPresent())
	f.down(synchronizer.Message{Event: synchronizer.EventIngesterPresent, Depth: 1, MsgID: "m"})
	require.Eventually(t, f.IngesterPresent, limit, time.Millisecond)
	clock.Add(int64(ingesterSilence - 1))
	require.True(t, f.IngesterPresent())
	clock.Add(1)
	require.False(t, f.IngesterPresent())
	require.Empty(t, f.drops.All())
}
