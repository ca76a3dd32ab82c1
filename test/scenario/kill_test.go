// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/test/kubetest"
)

// The server is killed at some moment of a first sync and comes back with its
// data and ports; whatever happened in the cluster meanwhile arrives, without
// help. Each seed has a new database and a new client for the same cluster.
func TestServerKilledInSync(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps)
	const objects = 200
	w.createMany(configMaps, slotPrefix, objects, 8000)
	wr := w.newWriter(0, objects, objects, configMaps)
	for seed := uint64(1); seed <= 3; seed++ {
		dir, at := t.TempDir(), reserve(t)
		server, b := startBackendProcess(t, dir, at)
		wr.random = rand.New(rand.NewPCG(seed, 0))
		moment := 1 + wr.random.IntN(objects/2)
		stop := wr.start(100)
		client := w.startClient(to(b))

		eventually(t, "the moment has come", func() bool { return b.count(t.Context(), w) >= moment })
		server.kill()
		wr.more(30) // while it is down
		server, b = startBackendProcess(t, dir, at)
		t.Logf("seed %d: killed when %d or more of about %d were stored", seed, b.count(t.Context(), w), objects)
		wr.more(10)
		stop()
		w.settled(b)
		client.runs(t)
		client.stop()
		server.kill()
	}
}

// The client is killed while it tells of new objects; the next one tells what
// its predecessor could not. Deletions made while no client runs need a
// reconciliation and are none of this.
func TestClientKilledInSync(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, deployments)
	w.createMany(configMaps, "old", 100, 2000)
	b := startBackend(t, t.TempDir(), keyed)
	first := w.startClientProcess(to(b))
	w.agree(b)
	w.delete(configMaps, names("old", 0, 15)...)
	w.agree(b)

	done, _ := background(t, "creation", func(ctx context.Context) error {
		for _, name := range names("new", 0, 300) {
			if err := w.tryCreate(ctx, configMaps, name, ""); err != nil {
				return err
			}
		}
		return nil
	})
	moment := 85 + 1 + rand.New(rand.NewPCG(1, 0)).IntN(250)
	eventually(t, "the moment has come", func() bool { return b.count(t.Context(), w) >= moment })
	first.kill()
	t.Logf("killed when %d of 385 were stored", b.count(t.Context(), w))
	<-done
	w.change(configMaps, names("old", 20, 40)...)
	w.change(configMaps, names("new", 0, 20)...)
	w.create(deployments, "web")

	second := w.startClientProcess(to(b))
	w.settled(b)

	// Killed right at the start, as well.
	second.kill()
	w.change(configMaps, names("new", 50, 150)...)
	third := w.startClientProcess(to(b))
	eventually(t, "it has connected", func() bool {
		return counter(b.registry, "synchronizer_link_frames_total", map[string]string{"direction": "received", "event": "Ping"}) >= 3
	})
	third.kill()
	w.startClientProcess(to(b))
	w.agree(b)
}

// The client is killed while it tells of new objects, and again while it answers the
// reconciliation after the connect. What is deleted, created and changed until the
// next one runs is found by that one's reconciliation.
func TestClientKilledAndObjectsDeleted(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, deployments)
	w.createMany(configMaps, "old", 60, 2000)
	w.createMany(deployments, "web", 5, 0)
	b := startChanged(t, t.TempDir(), keyed, reconcilingSoon)
	first := w.startClientProcess(to(b))
	w.agree(b)

	done, _ := background(t, "creation", func(ctx context.Context) error {
		for _, name := range names("new", 0, 200) {
			if err := w.tryCreate(ctx, configMaps, name, ""); err != nil {
				return err
			}
		}
		return nil
	})
	moment := 65 + 20 + rand.New(rand.NewPCG(2, 0)).IntN(120)
	eventually(t, "the moment has come", func() bool { return b.count(t.Context(), w) >= moment })
	first.kill()
	t.Logf("killed when %d of 265 were stored", b.count(t.Context(), w))
	<-done
	gone := append(names("old", 0, 20), names("new", 0, 10)...) // all were stored
	w.delete(configMaps, gone...)
	w.delete(configMaps, names("new", 190, 200)...) // those hardly were
	w.delete(configMaps, names("new", 10, 15)...)
	w.create(configMaps, names("new", 10, 15)...) // others of the same name
	w.change(configMaps, names("old", 20, 30)...)
	w.change(configMaps, names("new", 15, 25)...)
	w.delete(deployments, "web-000")
	w.change(deployments, "web-001")
	w.create(deployments, "later")

	second := w.startClientProcess(to(b))
	w.settled(b)
	for _, name := range gone {
		require.True(t, b.deleted(w, configMaps, name), name)
	}
	require.True(t, b.deleted(w, deployments, "web-000"))
	require.Equal(t, w.uid(configMaps, "new-010"), b.object(t, w, configMaps, "new-010").UID)

	second.kill()
	w.delete(configMaps, names("new", 30, 130)...)
	before := b.count(t.Context(), w)
	third := w.startClientProcess(to(b))
	eventually(t, "it tells deletions", func() bool { return b.count(t.Context(), w) < before })
	third.kill()
	t.Logf("killed when %d of 100 deletions were stored", before-b.count(t.Context(), w))
	w.delete(configMaps, names("new", 130, 140)...)
	w.create(configMaps, names("new", 30, 35)...)
	w.change(deployments, "web-002")
	w.startClientProcess(to(b))
	w.settled(b)
}
