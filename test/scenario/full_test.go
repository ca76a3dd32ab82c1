// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/ingest"
	"synchronizer/internal/link"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/nats"
	"synchronizer/internal/relay"
	"synchronizer/internal/store/sqlite"
	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/proxy"
)

// The disk of the database is full. The backend says so and keeps what it was
// told in the queue; when there is room again all of it is stored, though no
// client is there to say it again.
func TestDatabaseFull(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps)
	const objects = 100
	w.createMany(configMaps, "settings", objects, 0)
	dir := t.TempDir()
	b := startBackend(t, dir, keyed) // makes database and access key
	network := proxy.New(t, b.clients)
	b.stop()

	full := startBounded(t, dir, 64) // 1 MiB, half of what will come
	network.SetTarget(full.clients)
	client := w.startClient(through(network.Addr(), b))
	eventually(t, "all objects are stored", func() bool { return full.records("PutObject", "stored") == objects })

	// Whole or as a patch: each of these is one frame, since the one before it was sent.
	sent := func() int { return client.frames("sent", "PutObject") + client.frames("sent", "PatchObject") }
	bulk := fmt.Appendf(nil, `{"metadata":{"annotations":{"bulk":%q}}}`, strings.Repeat("x", 20_000))
	for _, name := range names("settings", 0, objects) {
		_, err := w.cluster.Do(t.Context(), http.MethodPatch, w.path(configMaps, name), "application/merge-patch+json", bulk)
		require.NoError(t, err)
	}
	eventually(t, "the backend says what is wrong", func() bool { return errors.Is(full.ready(), sqlite.ErrFull) })
	eventually(t, "all was sent", func() bool { return sent() == 2*objects })
	w.change(configMaps, names("settings", 0, 20)...)
	w.delete(configMaps, names("settings", 20, 30)...)
	eventually(t, "the rest was sent", func() bool { return sent() == 2*objects+20 && client.frames("sent", "ObjectDeleted") == 10 })
	client.stop()
	require.ErrorIs(t, full.ready(), sqlite.ErrFull)
	full.stop()

	b = startBackend(t, dir, keyed)
	w.agree(b)
	network.SetTarget(b.clients)
	w.startClient(through(network.Addr(), b))
	w.settled(b)
}

// startBounded runs server and ingester as internal/app/server does, with a
// database that may not grow beyond so many pages.
func startBounded(t *testing.T, dir string, pages int64) *backend {
	t.Helper()
	p := app.NewProcess(newLog(t, "full backend"))
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "synchronizer.db"), sqlite.WithMaxPages(pages))
	require.NoError(t, err)
	broker, err := nats.OpenEmbedded(t.Context(), nats.EmbeddedConfig{Dir: filepath.Join(dir, "queue"), Logger: p.Logger})
	require.NoError(t, err)
	server := relay.New(relay.Options{
		Queue: broker, QueueName: "embedded", Encoding: queue.Compact, Authenticator: relay.AccessKeys{Credentials: store},
		Link: link.Options{Drop: p.Drops.Drop}, ServerName: "full", UpwardBytes: 4 << 20, BacklogBytes: 16 << 20,
		Logger: p.Logger, Registerer: p.Registerer("server"), Drop: p.Drops.Drop,
	})
	defaults := config.Default().Ingester
	ingester := ingest.New(ingest.Options{
		Queue: broker, Store: store, Encoder: queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend},
		Group: defaults.Group, BatchRecords: defaults.BatchMax, BatchBytes: 8 << 20,
		Logger: p.Logger, Registerer: p.Registerer("ingester"), Drop: p.Drops.Drop,
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &backend{clients: listener.Addr().String(), registry: p.Registry, ready: ingester.Ready}
	_, b.stop = background(t, "full backend", func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return server.Run(ctx) })
		g.Go(func() error { return ingester.Run(ctx) })
		web := &http.Server{Handler: server}
		g.Go(func() error {
			if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
		<-ctx.Done()
		err := errors.Join(web.Close(), g.Wait())
		return errors.Join(err, broker.Close(context.WithoutCancel(ctx)), store.Close())
	})
	return b
}
