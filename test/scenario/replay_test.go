// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/internal/link/stock"
	"synchronizer/test/kubetest/proxy"
)

// replaying turns replay on.
func replaying(on queueSetup) queueSetup {
	return func(c *config.Config) {
		on(c)
		c.Backend.Replay.Enabled = true
	}
}

// commanding sends numbered commands to one cluster through a queue.
type commanding struct {
	t       testing.TB
	through *backend
	id      synchronizer.ClusterID
	sent    []string
}

func (c *commanding) send(n int) {
	c.t.Helper()
	for range n {
		c.sent = append(c.sent, numbered("command", len(c.sent)))
		c.through.command(c.t, c.id, c.sent[len(c.sent)-1])
	}
}

// arrives waits until a client has been told exactly these, in this order.
func (c *commanding) arrives(client *stock.Client, want []string) {
	c.t.Helper()
	eventually(c.t, "the commands arrive", func() bool { return len(heard(client, stock.ObjectDeleted)) >= len(want) })
	require.Equal(c.t, want, heard(client, stock.ObjectDeleted))
}

// downward is how many records of the backend had a result in a server.
func (b *backend) downward(result string) int {
	return int(counter(b.registry, "synchronizer_relay_downward_records_total", map[string]string{"result": result}))
}

func (b *backend) dropped(reason synchronizer.DropReason) int {
	return int(counter(b.registry, "synchronizer_drops_total", map[string]string{"reason": string(reason)}))
}

// B063: the link to one server becomes a black hole, and the client connects to
// another one. With replay it is told there what went into the hole: everything that
// server has received meanwhile, in order and once, and what comes then behind it. A
// client in the field does what was done already again; newer ones skip it.
func TestB063MovesToAnotherPod(t *testing.T) {
	overBrokers(t, func(t *testing.T, on queueSetup) {
		first, second := startPod(t, replaying(on)), startPod(t, replaying(on))
		id := synchronizer.ClusterID{Account: server.LocalAccount, Cluster: "c"}
		commands := &commanding{t: t, through: startPod(t, on), id: id}
		network := proxy.New(t, first.clients)
		connect := func(address string, hold bool) *stock.Client {
			return stock.Connect(t, "ws://"+address, stock.ClientOptions{
				Account: id.Account, Cluster: id.Cluster, Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy}, HoldReading: hold,
			})
		}
		before := connect(network.Addr(), false)
		eventually(t, "the client is connected", func() bool { return connected(first) == 1 })
		commands.send(20)
		commands.arrives(before, commands.sent)

		network.BlackHole(true)
		commands.send(40)
		eventually(t, "both servers have them", func() bool {
			return first.downward("accepted") == 60 && second.downward("retained") == 60
		})
		require.Len(t, heard(before, stock.ObjectDeleted), 20)
		after := connect(second.clients, true)
		eventually(t, "the client is connected", func() bool { return connected(second) == 1 })
		require.Equal(t, 1, connected(first), "the first one still believes in it")
		commands.send(20)
		after.Resume()
		commands.arrives(after, commands.sent)
		commands.send(5)
		commands.arrives(after, commands.sent)

		// The dead connection ends, and nothing changes by that. All of it was said to it.
		eventually(t, "the first one has them too", func() bool { return first.downward("accepted") == len(commands.sent) })
		network.Cut()
		eventually(t, "the first one knows", func() bool { return connected(first) == 0 })
		require.Equal(t, 1, connected(second))
		commands.send(5)
		commands.arrives(after, commands.sent)

		// Back again: the first has kept only what came since it had no client.
		after.Close()
		eventually(t, "the client has left", func() bool { return connected(second) == 0 })
		back := connect(first.clients, false)
		commands.arrives(back, commands.sent[85:])
		commands.send(5)
		commands.arrives(back, commands.sent[85:])
		for _, pod := range []*backend{first, second} {
			for _, reason := range []synchronizer.DropReason{synchronizer.DropReplayExpired, synchronizer.DropReplayCapacity, synchronizer.DropDisconnected, synchronizer.DropBacklog} {
				require.Zero(t, pod.dropped(reason), reason)
			}
		}
	})
}

// B063, without replay: what goes into the hole is lost, and counted by the server
// that has written it.
func TestB063LostWithoutReplay(t *testing.T) {
	overBrokers(t, func(t *testing.T, on queueSetup) {
		first, second := startPod(t, on), startPod(t, on)
		id := synchronizer.ClusterID{Account: server.LocalAccount, Cluster: "c"}
		commands := &commanding{t: t, through: startPod(t, on), id: id}
		network := proxy.New(t, first.clients)
		options := stock.ClientOptions{Account: id.Account, Cluster: id.Cluster, Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy}}
		before := stock.Connect(t, "ws://"+network.Addr(), options)
		eventually(t, "the client is connected", func() bool { return connected(first) == 1 })
		commands.send(10)
		commands.arrives(before, commands.sent)
		spoken := first.spoken("VerifyObject")
		before.Set(stockObject(configMaps, "sign-of-life", 1))
		eventually(t, "the server has heard it", func() bool { return first.spoken("VerifyObject") > spoken })

		network.BlackHole(true)
		commands.send(10)
		eventually(t, "both servers have them", func() bool {
			return first.downward("accepted") == 20 && second.downward("not_connected_here") == 20
		})
		after := stock.Connect(t, "ws://"+second.clients, options)
		eventually(t, "the client is connected", func() bool { return connected(second) == 1 })
		network.Cut()
		eventually(t, "the first one knows", func() bool { return connected(first) == 0 })
		eventually(t, "each that was lost is counted", func() bool { return first.dropped(synchronizer.DropUnheard) == 10 })
		commands.send(10)
		commands.arrives(after, commands.sent[20:])
		require.Equal(t, 10, first.dropped(synchronizer.DropUnheard))
		require.Zero(t, second.dropped(synchronizer.DropUnheard))
	})
}

// spoken is how many records of an event a server has published for clients.
func (b *backend) spoken(event string) int {
	return int(counter(b.registry, "synchronizer_mq_producer_messages_produced_count", map[string]string{"event_type": event, "status": "success"}))
}

// One server, whose client is away for a while: over each queue it is told what it
// has missed, as far as backend.replay says.
func TestReplaySettings(t *testing.T) {
	type settings func(*config.Replay)
	const sent = 8
	for name, test := range map[string]struct {
		change settings
		want   func(all []string) []string
		reason synchronizer.DropReason
	}{
		"enabled":              {func(*config.Replay) {}, func(all []string) []string { return all }, ""},
		"off":                  {func(r *config.Replay) { r.Enabled = false }, func([]string) []string { return nil }, ""},
		"maxMessages":          {func(r *config.Replay) { r.MaxMessages = 3 }, func(all []string) []string { return all[sent-3:] }, synchronizer.DropReplayCapacity},
		"maxMessagesPerClient": {func(r *config.Replay) { r.MaxMessagesPerClient = 2 }, func(all []string) []string { return all[sent-2:] }, synchronizer.DropReplayCapacity},
		"maxBytes":             {func(r *config.Replay) { r.MaxBytes = 100 }, func([]string) []string { return nil }, synchronizer.DropReplayTooLarge},
		"ttlSeconds":           {func(r *config.Replay) { r.TTLSeconds = 1 }, func([]string) []string { return nil }, synchronizer.DropReplayExpired},
	} {
		t.Run(name, func(t *testing.T) {
			overQueues(t, func(t *testing.T, on queueSetup) {
				pod := startPod(t, func(c *config.Config) {
					replaying(on)(c)
					test.change(&c.Backend.Replay)
				})
				id := synchronizer.ClusterID{Account: server.LocalAccount, Cluster: "c"}
				commands := &commanding{t: t, through: pod, id: id}
				commands.send(sent)
				want := test.want(slices.Clone(commands.sent))
				eventually(t, "they are received, and counted if they are not kept", func() bool {
					received := pod.downward("retained") + pod.downward("not_connected_here") + pod.dropped(synchronizer.DropReplayTooLarge)
					return received == sent && (test.reason == "" || pod.dropped(test.reason) == sent-len(want))
				})
				client := stock.Connect(t, "ws://"+pod.clients, stock.ClientOptions{Account: id.Account, Cluster: id.Cluster})
				commands.arrives(client, want)
				eventually(t, "nothing is kept any more", func() bool {
					return connected(pod) == 1 && counter(pod.registry, "synchronizer_relay_replay_messages", nil) == 0
				})
				commands.send(1)
				commands.arrives(client, append(want, commands.sent[sent]))
			})
		})
	}
}
