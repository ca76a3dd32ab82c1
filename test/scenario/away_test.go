// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/proxy"
)

// The API server is killed and comes back: watches go on where they were.
func TestAPIServerKilled(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	cluster := kubetest.Start(t)
	w := newWorld(t, cluster, configMaps, deployments)
	w.createMany(configMaps, "settings", 50, 0)
	b := startBackend(t, t.TempDir(), keyed)
	client := w.startClient(to(b))
	w.agree(b)

	require.NoError(t, cluster.Kill())
	require.NoError(t, cluster.Restart())
	w.change(configMaps, names("settings", 0, 10)...)
	w.delete(configMaps, names("settings", 10, 20)...)
	w.create(deployments, "web")
	w.agree(b)
	client.runs(t)
	listed := counter(client.registry, "synchronizer_agent_events_total", map[string]string{"type": "listed"})
	t.Logf("%.0f objects were listed in all, 50 of them at the start", listed)
}

// What was deleted in a time of which the API server has no history any more is
// found missing by the next list.
func TestAPIServerCompacted(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	cluster := kubetest.Start(t)
	w := newWorld(t, cluster, configMaps, deployments)
	w.createMany(configMaps, "settings", 50, 0)
	w.create(deployments, "web", "api")
	network := proxy.New(t, strings.TrimPrefix(cluster.URL, "https://"))
	var err error
	w.kubeconfig, err = cluster.KubeconfigVia(network.Addr())
	require.NoError(t, err)
	b := startBackend(t, t.TempDir(), keyed)
	client := w.startFastClient(to(b)) // the outage is long, and so would be the back-off after it
	w.agree(b)
	listed := func() float64 {
		return counter(client.registry, "synchronizer_agent_events_total", map[string]string{"type": "listed"})
	}
	before := listed()

	network.Refuse(true)
	network.Cut()
	w.delete(configMaps, names("settings", 0, 12)...) // few enough to be believed at once
	w.delete(deployments, "web")
	w.change(configMaps, names("settings", 20, 30)...)
	w.create(configMaps, "new")
	w.delete(deployments, "api")
	w.create(deployments, "api") // another object under its name
	require.NoError(t, cluster.Compact(t.Context()))
	require.NoError(t, cluster.Kill())
	require.NoError(t, cluster.Restart())
	network.Refuse(false)
	w.agree(b)
	require.Greater(t, listed(), before, "a new list was needed")
	row := b.object(t, w, configMaps, "settings-000")
	require.NotNil(t, row)
	require.False(t, row.DeletedAt.IsZero())
	require.Equal(t, w.uid(deployments, "api"), b.object(t, w, deployments, "api").UID)
}

// A client that starts before its API server waits for it, connected.
func TestAPIServerAwayAtStart(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, deployments)
	w.createMany(configMaps, "settings", 20, 0)
	network := proxy.New(t, strings.TrimPrefix(shared.URL, "https://"))
	network.Refuse(true)
	var err error
	w.kubeconfig, err = shared.KubeconfigVia(network.Addr())
	require.NoError(t, err)
	b := startBackend(t, t.TempDir(), keyed)
	client := w.startClient(to(b))
	eventually(t, "the client has connected to the backend", func() bool { return client.frames("sent", "Ping") > 0 })
	refused := network.Counters().Refused
	eventually(t, "it goes on trying", func() bool { return network.Counters().Refused >= refused+4 })
	client.runs(t)
	network.Refuse(false)
	w.agree(b)
}

// A client that starts before its backend waits for it, and does so again when
// the backend goes. What happens meanwhile arrives.
func TestBackendAway(t *testing.T) { overQueues(t, testBackendAway) }

func testBackendAway(t *testing.T, on queueSetup) {
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, deployments)
	w.createMany(configMaps, "settings", 40, 0)
	dir := t.TempDir()
	b := startChanged(t, dir, keyed, on) // makes the access key
	network := proxy.New(t, b.clients)
	network.Refuse(true)
	b.stop()

	client := w.startClient(through(network.Addr(), b))
	eventually(t, "it tries again", func() bool { return network.Counters().Refused >= 2 })
	w.change(configMaps, "settings-000")
	b = startChanged(t, dir, keyed, on)
	network.SetTarget(b.clients)
	network.Refuse(false)
	w.agree(b)

	b.stop()
	refused := network.Counters().Refused
	w.change(configMaps, names("settings", 0, 10)...)
	w.delete(configMaps, names("settings", 10, 20)...)
	w.create(deployments, "web")
	w.delete(configMaps, "settings-020")
	w.create(configMaps, "settings-020")
	eventually(t, "it tries again", func() bool { return network.Counters().Refused > refused })
	client.runs(t)
	b = startChanged(t, dir, keyed, on)
	network.SetTarget(b.clients)
	w.settled(b)
}

// A second client of the cluster comes and goes, as when a rollout is taken
// back. The first one has been connected all the time and goes on to count.
func TestOlderClientStays(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps)
	w.createMany(configMaps, "settings", 10, 0)
	b := startBackend(t, t.TempDir(), keyed)
	older := w.startClient(to(b))
	w.agree(b)
	newer := w.startClient(to(b))
	eventually(t, "the newer one has told all", func() bool { return b.records("VerifyObject", "confirmed") == 10 })
	newer.stop()

	w.change(configMaps, names("settings", 0, 3)...)
	w.delete(configMaps, names("settings", 3, 5)...)
	w.create(configMaps, "new")
	w.agree(b)
	older.runs(t)
}

// Two accounts may call a cluster by the same name.
func TestAccountsAreApart(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	one, two := newWorld(t, shared, configMaps), newWorld(t, shared, configMaps)
	two.name = one.name                    // its namespace is another
	b := startBackend(t, t.TempDir(), nil) // without access keys the client says who it is
	require.Empty(t, b.accessKey)

	one.create(configMaps, "both", "first")
	two.create(configMaps, "both", "second", "third")
	one.startClient(target{address: b.clients, account: "one"})
	two.startClient(target{address: b.clients, account: "two"})
	one.agreeAs(b, "one")
	two.agreeAs(b, "two")
	two.delete(configMaps, "both")
	one.change(configMaps, "both")
	two.agreeAs(b, "two")
	one.agreeAs(b, "one")
}
