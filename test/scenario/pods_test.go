// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/internal/link/stock"
	"synchronizer/internal/queue"
)

// serverOnly makes a backend a server pod without ingester and store.
func serverOnly(on queueSetup) queueSetup {
	return func(c *config.Config) {
		on(c)
		no := false
		c.Ingester.Enabled = &no
	}
}

// startPod starts a server without ingester on the queue.
func startPod(t testing.TB, on queueSetup) *backend {
	t.Helper()
	return startChanged(t, t.TempDir(), nil, serverOnly(on))
}

// command publishes a command about an object, as a part of the backend would.
func (b *backend) command(t testing.TB, id synchronizer.ClusterID, name string) {
	t.Helper()
	m := synchronizer.Message{Event: synchronizer.EventDelete, Kind: configMaps, Namespace: "default", Name: name, ClusterID: id, Depth: 1, MsgID: uuid.NewString()}
	encoder := queue.Encoder{Encoding: queue.Field, Producer: queue.Backend}
	r, err := encoder.Encode(&m, queue.Extra{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, b.queue.Publish(ctx, synchronizer.In, []synchronizer.Record{r}))
}

// heard lists the names of the objects about which the server has said something
// to a client.
func heard(c *stock.Client, event int) []string {
	var list []string
	for _, f := range c.Received() {
		if f.Event != nil && *f.Event == event {
			list = append(list, f.Name)
		}
	}
	return list
}

// B089: what a client says does not come back to it by the queue, from none of the
// servers; what the backend says does.
func TestB089NothingComesBack(t *testing.T) {
	overQueues(t, func(t *testing.T, on queueSetup) {
		ingesting := startChanged(t, t.TempDir(), nil, on)
		pods := map[string]*backend{"one": ingesting}
		if !embedded(on) {
			pods["two"] = startPod(t, on)
		}
		for name, pod := range pods {
			id := synchronizer.ClusterID{Account: server.LocalAccount, Cluster: name}
			client := stock.Connect(t, "ws://"+pod.clients, stock.ClientOptions{
				Account: id.Account, Cluster: id.Cluster, Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy},
				Objects: []stock.Object{stockObject(configMaps, "existing", 0)},
			})
			client.Set(stockObject(configMaps, "put", 1))
			client.Set(stockObject(configMaps, "put", 2))
			client.Set(stockObject(configMaps, "deleted", 1))
			client.Delete(configMaps, "default", "deleted")
			eventually(t, "what it said is stored", func() bool {
				stored, err := ingesting.stored(t.Context(), id.Account, id.Cluster)
				return err == nil && len(stored) == 2
			})
			ingesting.command(t, id, "from-the-backend")
			eventually(t, "the backend's command arrives", func() bool { return len(heard(client, stock.ObjectDeleted)) > 0 })
			// The ingester asks for what it knows only the checksum of; for which ones
			// depends on where its batches end. A client of this kind never asks.
			require.Never(t, func() bool {
				return len(client.Received()) != 1+len(heard(client, stock.GetObject))
			}, 10*time.Second, 100*time.Millisecond, "and nothing else")
			require.Contains(t, heard(client, stock.GetObject), "existing")
			require.Equal(t, []string{"from-the-backend"}, heard(client, stock.ObjectDeleted))
		}
	})
}

// embedded tells whether the queue is the one that only one process can use.
func embedded(on queueSetup) bool {
	c := config.Default()
	on(c)
	return c.Backend.QueueType() == config.QueueEmbedded
}

// B024: every server sees every command, while others come and go and from the
// moment at which it says that it is ready.
func TestB024EveryPodSeesEveryCommand(t *testing.T) {
	overBrokers(t, func(t *testing.T, on queueSetup) {
		id := synchronizer.ClusterID{Account: server.LocalAccount, Cluster: "c"}
		speaker := startChanged(t, t.TempDir(), nil, on)
		connect := func(pod *backend) *stock.Client {
			return stock.Connect(t, "ws://"+pod.clients, stock.ClientOptions{Account: id.Account, Cluster: id.Cluster, Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy}})
		}
		arrived := func(c *stock.Client, want []string) {
			t.Helper()
			eventually(t, "all commands arrive", func() bool { return len(heard(c, stock.ObjectDeleted)) >= len(want) })
			require.Equal(t, want, heard(c, stock.ObjectDeleted))
		}
		first, second := startPod(t, on), startPod(t, on)
		client := connect(second)
		eventually(t, "the client is connected", func() bool { return connected(second) == 1 })
		var want []string
		for i := range 100 {
			switch i {
			case 30:
				first.stop()
			case 60:
				first = startPod(t, on)
			}
			want = append(want, numbered("while", i))
			speaker.command(t, id, want[i])
		}
		arrived(client, want)
		client.Close()

		// The commands begin when the pod says that it is ready. A client is there
		// a little later, so they wait for it to be connected; what the queue has
		// from then on it must get.
		third := startPod(t, on)
		client = connect(third)
		eventually(t, "the client is connected", func() bool { return connected(third) == 1 })
		want = nil
		for i := range 100 {
			want = append(want, numbered("ready", i))
			speaker.command(t, id, want[i])
		}
		arrived(client, want)
	})
}

// connected is how many clients a server says are connected.
func connected(b *backend) int {
	return int(counter(b.registry, "synchronizer_connected_clients_count", nil))
}

// B018: one message above the broker's limit hurts no other, and the client stays
// connected. Over brokers that cannot carry it, it travels in parts.
func TestB018LargeAmongSmall(t *testing.T) {
	overQueues(t, func(t *testing.T, on queueSetup) {
		b := startChanged(t, t.TempDir(), nil, on)
		client := stock.Connect(t, "ws://"+b.clients, stock.ClientOptions{
			Account: server.LocalAccount, Cluster: "c", Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy},
		})
		bulky := func(name string, size int) stock.Object {
			return stock.Object{Kind: configMaps, Namespace: "default", Name: name, JSON: fmt.Sprintf(
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default","uid":"u"},"data":{"bulk":%q}}`, name, strings.Repeat("x", size))}
		}
		sizes := map[string]int{"a": 10 << 10, "b": 3 << 20, "c": 10 << 10, "d": 1<<20 - 200, "e": 8 << 20, "f": 10 << 10}
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			client.Set(bulky(name, sizes[name]))
			client.Set(bulky(name, sizes[name])) // the second time it is a change, and goes whole
		}
		eventually(t, "all are stored", func() bool {
			stored, err := b.stored(t.Context(), server.LocalAccount, "c")
			return err == nil && len(stored) == len(sizes)
		})
		require.Equal(t, 1, connected(b))
		require.Zero(t, counter(b.registry, "synchronizer_client_disconnection_count", nil))
		require.Zero(t, counter(b.registry, "synchronizer_drops_total", nil))
	})
}

// Servers and brokers that come and go at the same time as clients speak: nothing
// that a client said is missing in the end. Each client says its last state again
// when it connects, so the ingester only has to be right.
func TestManyClientsOfTwoPods(t *testing.T) {
	overBrokers(t, func(t *testing.T, on queueSetup) {
		ingesting, pod := startChanged(t, t.TempDir(), nil, on), startPod(t, on)
		var group sync.WaitGroup
		const clients, objects = 8, 25
		for n := range clients {
			at := []*backend{ingesting, pod}[n%2]
			client := stock.Connect(t, "ws://"+at.clients, stock.ClientOptions{
				Account: server.LocalAccount, Cluster: numbered("c", n), Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Patch},
			})
			group.Go(func() {
				for revision := range 4 {
					for i := range objects {
						client.Set(stockObject(configMaps, numbered("o", i), revision))
					}
				}
			})
		}
		group.Wait()
		for n := range clients {
			eventually(t, "the last states are stored", func() bool {
				stored, err := ingesting.stored(t.Context(), server.LocalAccount, numbered("c", n))
				if err != nil || len(stored) != objects {
					return false
				}
				for key, entry := range stored {
					if entry.Checksum != stock.Checksum(stockObject(configMaps, key.Name, 3).JSON) {
						return false
					}
				}
				return true
			})
		}
	})
}
