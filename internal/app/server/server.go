// SPDX-License-Identifier: Apache-2.0

// Package server wires the backend: queue, store, relay, ingester and API in one
// process. It is the only place that knows which adapter is behind a contract.
package server

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"time"

	"synchronizer"
	"synchronizer/internal/api"
	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/ingest"
	"synchronizer/internal/queue"
	"synchronizer/internal/relay"
	"synchronizer/internal/telemetry"
)

const (
	// batchBytes is how much one transaction of the ingester takes.
	batchBytes = 8 << 20
	// closeTimeout bounds the flush of the queue at the end.
	closeTimeout = 30 * time.Second
)

// Backend is a backend that has been opened and not yet run: all files and ports
// are taken, so whatever is wrong with them is known. What it has depends on the
// process: a server whose records others ingest may have no store and no API, an
// ingester alone has no relay.
type Backend struct {
	process *app.Process
	config  *config.Config

	store    database
	queue    openedQueue
	relay    *relay.Server
	ingester *ingest.Ingester
	broker   answer
	database answer
	probes   probes

	clients, health, people net.Listener
	metrics                 net.Listener                // nil: only on the health port
	certificate             *telemetry.Certificate      // of clients; nil: no TLS
	authentication          *relay.AuthenticationServer // nil: not used
	// Secrets are those of the data directory.
	Secrets Secrets
}

// Open takes everything that the server needs. Close or Run must follow.
func Open(ctx context.Context, p *app.Process, c *config.Config) (_ *Backend, err error) {
	b := &Backend{process: p, config: c}
	defer func() {
		if err != nil {
			_ = b.Close()
		}
	}()
	// Ports first: a port in use is the most likely fault, and nothing is made on
	// disk for a process that cannot run.
	key := "backend.listen"
	if c.Backend.Listen == "" {
		key = "backend.port"
	}
	if b.clients, err = telemetry.Listen(ctx, c.Backend.ListenAddress(), key); err != nil {
		return nil, err
	}
	if b.health, err = telemetry.Listen(ctx, app.LocalPort(c.Backend.HealthPort), "backend.healthPort"); err != nil {
		return nil, err
	}
	if err = b.openMetrics(ctx); err != nil {
		return nil, err
	}
	defer b.answerProbes()()
	if err = b.openCertificate(); err != nil {
		return nil, err
	}
	if c.ServerHasStore() {
		if b.people, err = telemetry.Listen(ctx, c.API.Listen, "api.listen"); err != nil {
			return nil, err
		}
		if b.store, err = b.awaitDatabase(ctx); err != nil {
			return nil, err
		}
		if b.Secrets, err = ensureSecrets(ctx, b.store, c.Backend.DataDir, c.Backend.AccessKeys == config.AccessKeysStore); err != nil {
			return nil, err
		}
		if b.Secrets.Revoked {
			p.Logger.Info("the access key of the first start was revoked: to have a new one made, remove its file", "file", b.Secrets.AccessKeyFile)
		}
	}
	b.probes.opens("queue")
	if b.queue, err = openQueue(ctx, p, c, b.chunksUnderstood); err != nil {
		return nil, err
	}
	if err := b.wireRelay(); err != nil {
		return nil, err
	}
	if c.IngesterEnabled() {
		return b, b.wireIngester()
	}
	return b, nil
}

// OpenIngester takes what an ingester needs that is a process of its own.
func OpenIngester(ctx context.Context, p *app.Process, c *config.Config) (_ *Backend, err error) {
	b := &Backend{process: p, config: c}
	defer func() {
		if err != nil {
			_ = b.Close()
		}
	}()
	if b.health, err = telemetry.Listen(ctx, app.LocalPort(c.Backend.HealthPort), "backend.healthPort"); err != nil {
		return nil, err
	}
	if err = b.openMetrics(ctx); err != nil {
		return nil, err
	}
	defer b.answerProbes()()
	if b.store, err = b.awaitDatabase(ctx); err != nil {
		return nil, err
	}
	b.probes.opens("queue")
	if b.queue, err = openQueue(ctx, p, c, nil); err != nil {
		return nil, err
	}
	return b, b.wireIngester()
}

// chunksUnderstood says whether whoever reads a direction joins the parts of a
// large record: servers of this project do, and only our own ingester.
func (b *Backend) chunksUnderstood(to synchronizer.Direction) bool {
	return to != synchronizer.Out || b.config.IngesterEnabled() || b.relay.IngesterPresent()
}

func (b *Backend) wireIngester() error {
	c, p := b.config, b.process
	kinds, err := c.Ingester.Kinds()
	if err != nil {
		return err
	}
	events, err := c.Ingester.Events()
	if err != nil {
		return err
	}
	b.ingester = ingest.New(ingest.Options{
		Queue: b.queue.Queue, Store: b.store, Inventory: b.store, V1Kinds: kinds, EventKinds: events,
		Encoder: queue.Encoder{Encoding: b.queue.encoding, Producer: queue.Backend},
		Group:   c.IngesterGroup(), Workers: c.Ingester.Workers, BatchRecords: c.Ingester.BatchMax, BatchBytes: batchBytes,
		MaxAttempts: c.Ingester.MaxDeliveryAttempts,
		Keeper:      b.store,
		Tracer:      p.Tracer,
		Retention: ingest.Retention{
			Tombstones: time.Duration(c.Ingester.TombstoneTTL), Events: time.Duration(c.Ingester.EventTTL),
			Clusters: time.Duration(c.Store.Retention.ClustersNotSeenFor),
		},
		Logger: p.Logger, Registerer: p.Registerer("ingester"), Drop: p.Drops.Drop,
	})
	return nil
}

// Ready is nil while the process can take, store and show changes, as far as that
// is its work.
func (b *Backend) Ready() error {
	if err := b.probes.opening(); err != nil {
		return err
	}
	errs := []error{b.process.Stopping(), b.broker.ready(errNotAsked), b.storeReady()}
	if b.relay != nil {
		errs = append(errs, b.relay.Ready())
	}
	if b.ingester != nil {
		errs = append(errs, b.ingester.Ready())
	}
	return errors.Join(errs...)
}

// openMetrics takes the port of backend.prometheusConfig, unless it is that of health,
// which has the metrics anyway.
func (b *Backend) openMetrics(ctx context.Context) (err error) {
	m := b.config.Backend.PrometheusConfig
	if !m.Enabled || m.Port != 0 && m.Port == b.config.Backend.HealthPort {
		return nil
	}
	if b.metrics, err = telemetry.Listen(ctx, app.LocalPort(m.Port), "backend.prometheusConfig.port"); err != nil {
		return err
	}
	b.process.Logger.Info("metrics", "address", b.metrics.Addr())
	return nil
}

// MetricsAddress is where backend.prometheusConfig has them served; empty if nowhere.
func (b *Backend) MetricsAddress() string { return address(b.metrics) }

// ClientsAddress is where clients connect.
func (b *Backend) ClientsAddress() string { return address(b.clients) }

// APIAddress is where people read; empty if this process has no store.
func (b *Backend) APIAddress() string { return address(b.people) }

// HealthAddress is where probes and scrapers ask.
func (b *Backend) HealthAddress() string { return address(b.health) }

func address(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// Run serves until ctx ends, then stops in the order of a change: clients first,
// then the queue, then the store.
func (b *Backend) Run(ctx context.Context) error {
	var parts []func(context.Context) error
	if b.relay != nil {
		parts = append(parts, b.serveClients, b.keepSmall, func(ctx context.Context) error { return b.untilEnd(ctx, "relay", b.relay.Run) })
	}
	if b.ingester != nil {
		parts = append(parts, b.ingester.Announce, func(ctx context.Context) error { return b.untilEnd(ctx, "ingester", b.ingester.Run) })
	}
	if b.people != nil {
		parts = append(parts, b.servePeople)
	}
	parts = append(parts, b.watchBroker, b.watchStore)
	err := b.process.Run(ctx, parts, b.ports(), b.release)
	return errors.Join(err, b.Close())
}

// servePeople serves the API.
func (b *Backend) servePeople(ctx context.Context) error {
	return telemetry.Serve(ctx, b.people, api.New(api.Options{
		Reader: b.store, Credentials: b.store, Events: b.store, Keys: b.store, Ready: b.Ready, Logger: b.process.Logger,
	}), time.Second)
}

// ports are what probes and scrapers ask.
func (b *Backend) ports() []func(context.Context) error {
	ports := []func(context.Context) error{
		b.serveProbes,
		b.process.Profiler,
	}
	if b.metrics != nil {
		ports = append(ports, func(ctx context.Context) error { return b.process.Metrics(ctx, b.metrics) })
	}
	return ports
}

// Close gives back what Open took. It may be called again.
func (b *Backend) Close() error {
	b.probes.end()
	for _, l := range []net.Listener{b.clients, b.health, b.people, b.metrics} {
		if l != nil {
			_ = l.Close()
		}
	}
	if b.authentication != nil {
		b.authentication.Close()
	}
	return b.release()
}

// release closes the queue, which flushes it, and the store.
func (b *Backend) release() error {
	var errs []error
	if b.queue.Queue != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		errs = append(errs, b.queue.Close(ctx))
		b.queue.Queue = nil
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
		b.store = nil
	}
	return errors.Join(errs...)
}

// Files of the data directory that hold the first secrets, for scripts.
func accessKeyFile(dataDir string) string { return filepath.Join(dataDir, "access-key") }

// TokenFile holds the API token of this machine's administrator.
func TokenFile(dataDir string) string { return filepath.Join(dataDir, "api-token") }
