// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/test/kubetest"
)

// fleet is some clusters whose clients find three servers behind a load balancer,
// and the rest of the backend.
type fleet struct {
	t        testing.TB
	rest     *backend // its own server is nobody's
	pods     []*pod
	network  *crossing
	worlds   []*world
	agents   []*agent
	commands []*commander
}

func startFleet(t *testing.T, on queueSetup, clusters, objects int) *fleet {
	t.Helper()
	kubetest.Require(t, startErr)
	f := &fleet{t: t, rest: startChanged(t, t.TempDir(), nil, on), pods: startPods(t, on, 3, nil)}
	f.network = newCrossing(t, f.addresses(f.pods)...)
	for range clusters {
		w := newWorld(t, shared, configMaps)
		w.createMany(configMaps, "settings", objects, 500)
		f.worlds = append(f.worlds, w)
		f.commands = append(f.commands, newCommander(t, w, f.rest.queue))
		f.agents = append(f.agents, w.startFastClient(target{address: f.network.address(), key: "any"}))
	}
	return f
}

func (*fleet) addresses(pods []*pod) []string {
	var list []string
	for _, p := range pods {
		list = append(list, p.clients)
	}
	return list
}

// without is all pods but one.
func (f *fleet) without(one *pod) []*pod {
	var list []*pod
	for _, p := range f.pods {
		if p != one {
			list = append(list, p)
		}
	}
	return list
}

// counted waits until all clients are connected to some of the pods, and each of
// these counts as many clients as have a connection to it.
func (f *fleet) counted(pods []*pod) {
	f.t.Helper()
	eventually(f.t, "each server counts its clients", func() bool {
		sum := 0
		for _, p := range pods {
			n := p.connected(f.t)
			if n != f.network.open(p.clients) {
				return false
			}
			sum += n
		}
		return sum == len(f.worlds)
	})
}

// works waits until the store agrees with every cluster, and commands to each
// arrive.
func (f *fleet) works() {
	f.t.Helper()
	for _, w := range f.worlds {
		w.agree(f.rest)
	}
	for i := range f.commands {
		f.commands[i].send(f.t, 4)
	}
	for i := range f.commands {
		f.commands[i].arrives(f.t)
		require.Equal(f.t, f.commands[i].sent, f.commands[i].applied(), "in order, each once")
		f.agents[i].runs(f.t)
	}
}

// change gives objects of every cluster their next revision.
func (f *fleet) change(from, to int) {
	f.t.Helper()
	for _, w := range f.worlds {
		w.change(configMaps, names("settings", from, to)...)
	}
}

// Three servers on one broker, of which one ends in order, one is killed, and one
// keeps connections of clients that have long been elsewhere. Whatever happens, the
// store agrees, each server's gauge is right, and commands reach the newest
// connection once and in order.
func TestClientsHopBetweenPods(t *testing.T) {
	overBrokers(t, func(t *testing.T, on queueSetup) {
		f := startFleet(t, on, 3, 12)
		f.counted(f.pods)
		for _, p := range f.pods {
			require.Positive(t, p.connected(t), "the balancer gives each some")
		}
		f.works()

		// Rollout of the first one.
		f.change(0, 6)
		f.pods[0].terminate(t)
		f.change(3, 9)
		f.counted(f.pods[1:])
		f.works()
		f.pods[0].start(t)
		f.pods[0].isReady(t)

		// The second one is killed.
		f.change(0, 4)
		f.pods[1].kill()
		f.change(2, 8)
		for _, w := range f.worlds {
			w.delete(configMaps, "settings-008")
		}
		f.counted(f.without(f.pods[1]))
		f.works()
		f.pods[1].start(t)
		f.pods[1].isReady(t)

		// The third one has all clients, and then a path that has become a black hole.
		last, others := f.pods[2], f.pods[:2]
		f.network.lead(last.clients)
		for _, p := range others {
			f.network.end(p.clients, false)
		}
		f.counted([]*pod{last})
		f.works()
		f.network.hold(last.clients)
		f.change(0, 4)
		eventually(t, "the clients speak into the black hole", func() bool { return f.network.swallowed(last.clients) })
		f.network.lead(f.addresses(others)...)
		f.network.lose(last.clients)
		f.counted(others)
		f.change(0, 4)
		f.works()
		require.Equal(t, len(f.worlds), last.connected(t), "it still believes in them")
		stale := func() float64 {
			return counter(f.rest.registry, "synchronizer_drops_total", map[string]string{"reason": string(synchronizer.DropStale)})
		}
		before := stale()
		f.network.end(last.clients, true) // what the clients said into it comes late
		eventually(t, "it knows that they are gone", func() bool { return last.connected(t) == 0 })
		eventually(t, "what came late is older than what is stored", func() bool { return stale() > before })
		f.counted(f.pods)
		f.works()
		for _, a := range f.agents {
			require.Zero(t, a.applied("unchanged"), "no command was carried out again")
		}
	})
}
