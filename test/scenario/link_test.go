// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/proxy"
)

// The link breaks in the middle of the first sync, then the network swallows
// everything for a while; meanwhile objects go on changing.
func TestLinkCutAndBlackHole(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, deployments)
	const objects = 250
	w.createMany(configMaps, slotPrefix, objects, 4000)
	b := startBackend(t, t.TempDir(), keyed)
	network := proxy.New(t, b.clients)
	network.Delay(5 * time.Millisecond) // so that the sync has a middle
	client := w.startClient(through(network.Addr(), b))
	stored := func() int { return b.count(t.Context(), w) }

	eventually(t, "the first sync has begun", func() bool { return stored() >= objects/10 })
	network.Cut()
	t.Logf("cut when %d of %d were stored", stored(), objects)

	wr := w.newWriter(1, objects, objects, configMaps)
	stop := wr.start(100)
	wr.more(20)
	network.Cut()
	wr.more(50)
	network.BlackHole(true)
	wr.more(150)
	network.BlackHole(false)
	wr.more(20)
	stop()
	w.settled(b)
	client.runs(t)

	// A network that comes back only with new connections.
	network.BlackHole(true)
	w.create(configMaps, "held")
	w.create(deployments, "web")
	network.Cut()
	network.BlackHole(false)
	w.agree(b)
}

// A storm of changes with a cut every second; half of the objects were deleted
// and created again at some time.
func TestStormWithCuts(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, deployments)
	b := startBackend(t, t.TempDir(), keyed)
	network := proxy.New(t, b.clients)
	// The clock is fast so that the back-off does not become longer than the storm.
	client := w.startFastClient(through(network.Addr(), b))

	const seed = 12
	t.Logf("seed %d", seed)
	wr := w.newWriter(seed, 100, 0, configMaps, deployments)
	stop := wr.start(100)
	cuts := 0
	each := time.NewTicker(time.Second)
	defer each.Stop()
	for range 10 {
		<-each.C
		if network.Counters().Open > 0 {
			cuts++
		}
		network.Cut()
	}
	stop()
	w.settled(b)
	client.runs(t)
	reconnects := counter(client.registry, "synchronizer_agent_reconnects_total", nil)
	t.Logf("%d operations, %d cuts, %.0f reconnects", wr.done.Load(), cuts, reconnects)
	require.Positive(t, reconnects)
}
