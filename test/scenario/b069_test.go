// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	agentpkg "synchronizer/internal/agent"
	"synchronizer/internal/kube"
	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/faultproxy"
)

// The one connection that all watches share is forgotten by a load balancer: it
// is open and carries nothing, and new ones would work. The client finds out by
// a ping; after 1 s and 1 s here, usually after 30 s and 15 s.
func TestB069DeadConnection(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, deployments)
	w.createMany(configMaps, "settings", 5, 0)
	w.create(deployments, "web")
	network := faultproxy.New(t, shared)
	b := startBackend(t, t.TempDir(), keyed)
	c := wiring{
		kube: kube.Options{Config: network.RESTConfig(), PingAfter: time.Second, PingTimeout: time.Second},
		log:  newLog(t, "client"),
	}
	for _, kind := range w.kinds {
		c.kinds = append(c.kinds, agentpkg.KindConfig{Kind: kind, Strategy: agentpkg.StrategyPatch})
	}
	client := w.startWired(b, c)
	w.agree(b)
	eventually(t, "both kinds are watched", func() bool { return network.Open(faultproxy.Watch("")) == 2 })
	connections := map[int]bool{}
	for _, r := range network.Requests(faultproxy.Watch("")) {
		connections[r.Connection] = true
	}
	require.Len(t, connections, 1, "all watches share one connection")

	require.Positive(t, network.KillConnections())
	w.change(configMaps, "settings-001")
	w.change(deployments, "web")
	w.delete(configMaps, "settings-002")
	w.create(configMaps, "new")
	w.agree(b)
	client.runs(t)
	require.InDelta(t, 2, counter(client.registry, watchEnds, because("dead")), 0, "each kind's watch, once")
	require.Len(t, network.Requests(faultproxy.Watch("")), 4, "and each asked once more")
	require.Positive(t, network.Count(faultproxy.DeadConnection{}))
	require.LessOrEqual(t, kube.DefaultPingAfter+kube.DefaultPingTimeout, time.Minute, "so long it takes usually")
}
