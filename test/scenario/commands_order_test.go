// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app/server"
	"synchronizer/internal/checksum"
	"synchronizer/internal/policy"
	"synchronizer/internal/queue"
	"synchronizer/test/kubetest"
)

// commander sends numbered commands about one object of a cluster, in turn as the
// whole object and as a patch, and knows which of them the cluster has seen.
type commander struct {
	w     *world
	queue synchronizer.Queue
	body  []byte // of the object, as the backend would have it
	sent  []string

	mu   sync.Mutex
	seen []string
}

const commanded = "commanded"

// newCommander makes the object. Its commands go to the queue as those of any
// other part of the backend do.
func newCommander(t testing.TB, w *world, q synchronizer.Queue) *commander {
	t.Helper()
	w.create(configMaps, commanded)
	object, err := w.reader.Get(t.Context(), configMaps, w.namespace, commanded)
	require.NoError(t, err)
	transformed, err := policy.New(policy.LinkV1).Apply(nil, configMaps.Group, configMaps.Resource, w.namespace, object.Body)
	require.NoError(t, err)
	c := &commander{w: w, queue: q, body: edited(t, transformed, `{"metadata":{"resourceVersion":null}}`)}
	background(t, "watch", func(ctx context.Context) error {
		err := w.reader.Watch(ctx, configMaps, object.ResourceVersion, func(event synchronizer.WatchEvent) error {
			if event.Object.Name == commanded && event.Object.Namespace == w.namespace {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.seen = append(c.seen, field(t, event.Object.Body, "data", "number"))
			}
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("the watch has ended: %w", err)
	})
	return c
}

// send publishes the next n commands.
func (c *commander) send(t testing.TB, n int) {
	t.Helper()
	encoder := queue.Encoder{Encoding: queue.Field, Producer: queue.Backend}
	for range n {
		number := strconv.Itoa(len(c.sent) + 1)
		c.sent = append(c.sent, number)
		change := fmt.Sprintf(`{"data":{"number":%q},"metadata":{"resourceVersion":null}}`, number)
		m := synchronizer.Message{
			Event: synchronizer.EventPut, Body: edited(t, c.body, change), Kind: configMaps, Namespace: c.w.namespace, Name: commanded,
			ClusterID: synchronizer.ClusterID{Account: server.LocalAccount, Cluster: c.w.name}, Depth: 1, MsgID: uuid.NewString(),
		}
		var err error
		m.Checksum, err = checksum.V1(m.Body)
		require.NoError(t, err)
		if len(c.sent)%2 == 0 {
			m.Event, m.Body = synchronizer.EventPatch, []byte(change)
		}
		record, err := encoder.Encode(&m, queue.Extra{})
		require.NoError(t, err)
		require.NoError(t, c.queue.Publish(t.Context(), synchronizer.In, []synchronizer.Record{record}))
	}
}

// applied are the numbers that the object has had, in their order.
func (c *commander) applied() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.seen...)
}

// arrives waits until the last command that was sent is applied.
func (c *commander) arrives(t testing.TB) {
	t.Helper()
	last := c.sent[len(c.sent)-1]
	eventually(t, "command "+last+" is applied", func() bool {
		seen := c.applied()
		return len(seen) > 0 && seen[len(seen)-1] == last
	})
}

// heard waits until the pod has heard something that the client says after all
// that it has been told.
func (p *pod) heard(t testing.TB, w *world, name string) {
	t.Helper()
	labels := map[string]string{"cluster": w.name, "event_type": synchronizer.EventVerify.String(), "status": "success"}
	before := p.count(t, "synchronizer_mq_producer_messages_produced_count", labels)
	w.create(configMaps, name)
	eventually(t, "the pod hears of a new object", func() bool {
		return p.count(t, "synchronizer_mq_producer_messages_produced_count", labels) > before
	})
}

// accepted is how many commands pods have taken for their clients.
func accepted(t testing.TB, pods ...*pod) int {
	sum := 0
	for _, p := range pods {
		sum += p.count(t, "synchronizer_relay_downward_records_total", map[string]string{"result": "accepted"})
	}
	return sum
}

// lost is what the pods say may not have reached clients.
func lost(t testing.TB, pods ...*pod) int {
	sum := 0
	for _, p := range pods {
		sum += p.dropped(t, string(synchronizer.DropDisconnected)) + p.dropped(t, string(synchronizer.DropUnheard))
	}
	return sum
}

// The link to one of two servers becomes a black hole, and a while later the client
// is with the other one. Without replay, what was said into the black hole is lost,
// and counted: sent − applied = the counter. What is applied is so in order, once.
func TestCommandsIntoABlackHole(t *testing.T) {
	overBrokers(t, func(t *testing.T, on queueSetup) {
		kubetest.Require(t, startErr)
		w := newWorld(t, shared, configMaps)
		speaker := startPod(t, on)
		pods := startPods(t, on, 2, nil)
		first, second := pods[0], pods[1]
		network := newCrossing(t, first.clients)
		commands := newCommander(t, w, speaker.queue)
		client := w.startFastClient(target{address: network.address(), key: "any"}) // it reconnects often
		eventually(t, "the client is connected", func() bool { return first.connected(t) == 1 })

		commands.send(t, 10)
		commands.arrives(t)
		first.heard(t, w, "heard")
		network.hold(first.clients)
		commands.send(t, 20)
		eventually(t, "the server has taken them for its client", func() bool { return accepted(t, first) == 30 })
		require.Zero(t, lost(t, pods...), "the server does not know")
		network.lead(second.clients)
		network.lose(first.clients)
		eventually(t, "the client is with the other server", func() bool { return second.connected(t) == 1 })
		require.Equal(t, 1, first.connected(t), "the first one still believes in it")
		network.end(first.clients, false)
		eventually(t, "the first one knows", func() bool { return first.connected(t) == 0 })
		commands.send(t, 10)
		commands.arrives(t)

		want := append(append([]string(nil), commands.sent[:10]...), commands.sent[30:]...)
		require.Equal(t, want, commands.applied())
		eventually(t, "what is lost is counted", func() bool { return lost(t, pods...) > 0 })
		require.Equal(t, len(commands.sent)-len(commands.applied()), lost(t, pods...))
		// Each of the two servers saw each command.
		require.Equal(t, len(commands.sent), accepted(t, pods...))

		// For a while both have a connection, of which one is dead: what the one counts
		// as lost the other has delivered. Nothing vanishes without being counted.
		second.heard(t, w, "heard-too")
		network.hold(second.clients)
		network.lead(first.clients)
		network.lose(second.clients)
		eventually(t, "the client is back", func() bool { return first.connected(t) == 1 })
		commands.send(t, 5)
		commands.arrives(t)
		eventually(t, "both have taken them", func() bool { return accepted(t, pods...) == len(commands.sent)+5 })
		network.end(second.clients, false)
		eventually(t, "the second one knows", func() bool { return second.connected(t) == 0 })
		eventually(t, "all is accounted for", func() bool { return len(commands.applied())+lost(t, pods...) == accepted(t, pods...) })
		client.runs(t)
		require.Zero(t, client.applied("unchanged"))
	})
}

// The same with replay: the server to which the client comes next has kept what went
// into the black hole, and the client, which is told much twice, skips what it has
// done. What is applied is what was sent, in order, once.
func TestCommandsAreReplayed(t *testing.T) {
	overBrokers(t, func(t *testing.T, on queueSetup) {
		kubetest.Require(t, startErr)
		w := newWorld(t, shared, configMaps)
		speaker := startPod(t, on)
		pods := startPods(t, on, 2, map[string]any{"replay": map[string]any{"enabled": true}})
		first, second := pods[0], pods[1]
		network := newCrossing(t, first.clients)
		commands := newCommander(t, w, speaker.queue)
		client := w.startFastClient(target{address: network.address(), key: "any"}) // it reconnects often
		eventually(t, "the client is connected", func() bool { return first.connected(t) == 1 })
		hop := func(from, to *pod) {
			t.Helper()
			network.hold(from.clients)
			commands.send(t, 15) // into the black hole
			network.lead(to.clients)
			network.lose(from.clients)
			eventually(t, "the client is with the other server", func() bool { return to.connected(t) == 1 })
			commands.send(t, 5) // both servers have a connection, of which one is dead
			commands.arrives(t)
			network.end(from.clients, true)
			eventually(t, "the other server knows that it is gone", func() bool { return from.connected(t) == 0 })
		}
		commands.send(t, 10)
		commands.arrives(t)
		hop(first, second)
		commands.send(t, 5)
		hop(second, first)
		commands.send(t, 5)
		hop(first, second)

		// Nobody is connected for a while, and one of the servers is drained.
		network.lead()
		network.end(second.clients, false)
		eventually(t, "nobody is connected", func() bool { return second.connected(t) == 0 })
		commands.send(t, 10)
		first.terminate(t)
		network.lead(first.clients, second.clients)
		commands.arrives(t)
		commands.send(t, 5)
		commands.arrives(t)

		// The one that has the client is killed while it is spoken to.
		first.start(t)
		first.isReady(t)
		commands.send(t, 10)
		second.kill()
		commands.send(t, 10)
		commands.arrives(t)

		require.Equal(t, commands.sent, commands.applied(), "all of them, in order, each once")
		require.Positive(t, counter(client.registry, "synchronizer_drops_total", map[string]string{"reason": string(synchronizer.DropDuplicate)}),
			"the client was told some of them twice")
		require.Zero(t, client.applied("unchanged"))
		client.runs(t)
	})
}
