// SPDX-License-Identifier: Apache-2.0

// Package server wires the backend: queue, store, relay, ingester and API in one
// process. It is the only place that knows which adapter is behind a contract.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"synchronizer"
	"synchronizer/internal/api"
	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/ingest"
	"synchronizer/internal/link"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/nats"
	"synchronizer/internal/relay"
	"synchronizer/internal/store/sqlite"
	"synchronizer/internal/telemetry"
)

const (
	// upwardBytes is what is read from one client and not yet confirmed.
	upwardBytes = 4 << 20
	// batchBytes is how much one transaction of the ingester takes.
	batchBytes = 8 << 20
	// closeTimeout bounds the flush of the queue at the end.
	closeTimeout = 30 * time.Second
)

// Backend is a backend that has been opened and not yet run: all files and ports
// are taken, so whatever is wrong with them is known.
type Backend struct {
	process *app.Process
	config  *config.Config

	store    *sqlite.DB
	queue    synchronizer.Queue
	relay    *relay.Server
	ingester *ingest.Ingester

	clients, health, people net.Listener
	// Secrets are those of the data directory.
	Secrets Secrets
}

// Open takes everything that the backend needs. Close or Run must follow.
func Open(ctx context.Context, p *app.Process, c *config.Config) (_ *Backend, err error) {
	b := &Backend{process: p, config: c}
	defer func() {
		if err != nil {
			_ = b.Close()
		}
	}()
	if c.Backend.QueueType() != config.QueueEmbedded {
		return nil, fmt.Errorf("%w: backend.messageQueue.type %q is not supported by this version", synchronizer.ErrInvalid, c.Backend.QueueType())
	}
	// Ports first: a port in use is the most likely fault, and nothing is made on
	// disk for a process that cannot run.
	if b.clients, err = telemetry.Listen(ctx, c.Backend.ListenAddress(), "backend.listen"); err != nil {
		return nil, err
	}
	if b.health, err = telemetry.Listen(ctx, app.LocalPort(c.Backend.HealthPort), "backend.healthPort"); err != nil {
		return nil, err
	}
	if b.people, err = telemetry.Listen(ctx, c.API.Listen, "api.listen"); err != nil {
		return nil, err
	}
	if b.store, err = sqlite.Open(ctx, c.SQLitePath()); err != nil {
		return nil, err
	}
	if b.Secrets, err = ensureSecrets(ctx, b.store, c.Backend.DataDir, c.Backend.AccessKeys == config.AccessKeysStore); err != nil {
		return nil, err
	}
	q, err := nats.OpenEmbedded(ctx, nats.EmbeddedConfig{
		Dir:      c.QueuePath(),
		MaxBytes: c.Backend.MessageQueue.Embedded.MaxBytes,
		Logger:   p.Logger,
	})
	if err != nil {
		return nil, err // a nil *nats.Queue in b.queue would not be nil
	}
	b.queue = q
	return b, b.wire()
}

// wire makes the parts that run.
func (b *Backend) wire() error {
	c, p := b.config, b.process
	var authenticator relay.Authenticator = relay.Anonymous{}
	if c.Backend.AccessKeys == config.AccessKeysStore {
		authenticator = relay.AccessKeys{Credentials: b.store}
	}
	name, err := os.Hostname()
	if err != nil {
		name = "synchronizer-server"
	}
	reg := p.Registerer("server")
	frames, err := link.NewMetrics(reg)
	if err != nil {
		return err
	}
	after, _ := c.Backend.ReconciliationTask.ReconcileAfterConnectSeconds.Duration() // what does not fit was set to 0
	kinds, err := c.Ingester.Kinds()
	if err != nil {
		return err
	}
	b.relay = relay.New(relay.Options{
		Queue: b.queue, QueueName: config.QueueEmbedded, Encoding: queue.Compact,
		Authenticator: authenticator,
		Link: link.Options{
			Limits: link.Limits{MaxMessageBytes: int(c.InCluster.MaxObjectBytes)},
			Drop:   p.Drops.Drop, Metrics: frames,
		},
		ServerName:  name,
		UpwardBytes: upwardBytes, BacklogBytes: int(c.Backend.ClientBacklogBytes),
		MaxObjectSize: c.Process.MaxObjectSize, ReconcileAfter: after,
		Logger: p.Logger, Registerer: reg, Drop: p.Drops.Drop,
	})
	b.ingester = ingest.New(ingest.Options{
		Queue: b.queue, Store: b.store, Inventory: b.store, V1Kinds: kinds,
		Encoder: queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend},
		Group:   c.Ingester.Group, BatchRecords: c.Ingester.BatchMax, BatchBytes: batchBytes,
		Logger: p.Logger, Registerer: p.Registerer("ingester"), Drop: p.Drops.Drop,
	})
	return nil
}

// Ready is nil while the backend can take, store and show changes.
func (b *Backend) Ready() error { return errors.Join(b.relay.Ready(), b.ingester.Ready()) }

// ClientsAddress is where clients connect.
func (b *Backend) ClientsAddress() string { return b.clients.Addr().String() }

// APIAddress is where people read.
func (b *Backend) APIAddress() string { return b.people.Addr().String() }

// HealthAddress is where probes and scrapers ask.
func (b *Backend) HealthAddress() string { return b.health.Addr().String() }

// Run serves until ctx ends, then stops in the order of a change: clients first,
// then the queue, then the store.
func (b *Backend) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.relay.Run(ctx) })
	g.Go(func() error { return b.ingester.Run(ctx) })
	g.Go(func() error { return serveClients(ctx, b.clients, b.relay) })
	g.Go(func() error { return b.process.Health(ctx, b.health, b.Ready) })
	g.Go(func() error { return b.process.Profiler(ctx) })
	g.Go(func() error {
		return telemetry.Serve(ctx, b.people, api.New(api.Options{
			Reader: b.store, Credentials: b.store, Ready: b.Ready, Logger: b.process.Logger,
		}), time.Second)
	})
	err := g.Wait()
	return errors.Join(err, b.Close())
}

// Close gives back what Open took. It may be called again.
func (b *Backend) Close() error {
	for _, l := range []net.Listener{b.clients, b.health, b.people} {
		if l != nil {
			_ = l.Close()
		}
	}
	var errs []error
	if b.queue != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		errs = append(errs, b.queue.Close(ctx))
		b.queue = nil
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
		b.store = nil
	}
	return errors.Join(errs...)
}

// serveClients runs the WebSocket listener. Connections are hijacked, so the
// relay ends them, not http.Server.
func serveClients(ctx context.Context, l net.Listener, h http.Handler) error {
	return telemetry.Serve(ctx, l, h, time.Second)
}

// Files of the data directory that hold the first secrets, for scripts.
func accessKeyFile(dataDir string) string { return filepath.Join(dataDir, "access-key") }

// TokenFile holds the API token of this machine's administrator.
func TokenFile(dataDir string) string { return filepath.Join(dataDir, "api-token") }
