// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/nats"
)

// The brokers.
const (
	Embedded = "embedded"
	NATS     = "nats"
	Kafka    = "kafka"
	Pulsar   = "pulsar"
)

// Brokers are the names of the brokers that can be measured.
var Brokers = []string{Embedded, NATS, Kafka, Pulsar}

// BrokerOptions say where brokers are.
type BrokerOptions struct {
	Programs
	// Addresses (host:port) of brokers that run, by name. The others are started, by
	// the project's scripts.
	Addresses map[string]string
}

// broker is one broker that runs, and the two ways to it.
type broker struct {
	about    string // what it is, a sentence
	library  string // what is used of its library, in words
	with     string // what else the process of producer and consumer does
	encoding queue.Encoding
	open     func(context.Context) (synchronizer.Queue, error)
	raw      func(context.Context, []synchronizer.Record) (side, error)
	cpu      func() (time.Duration, error) // of its process; nil: it is in this one or out of reach
	stop     func() error
	// arguments tell another process of a benchmark where the broker is.
	arguments []string
}

// adapter opens the side of this project.
func (b *broker) adapter(ctx context.Context, records []synchronizer.Record) (side, error) {
	q, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	return newAdapter(ctx, q, records)
}

// usage is the CPU time of this process and of the broker.
func (b *broker) usage() (own, broker time.Duration, err error) {
	if own, err = ownCPU(); err != nil || b.cpu == nil {
		return own, 0, err
	}
	broker, err = b.cpu()
	return own, broker, err
}

// start starts a broker, or uses the one that was named.
func (o *BrokerOptions) start(ctx context.Context, name string) (*broker, error) {
	switch name {
	case Embedded:
		return startEmbedded()
	case NATS, Kafka, Pulsar:
		return o.startExternal(ctx, name)
	}
	return nil, fmt.Errorf("%w: broker %q is not known", synchronizer.ErrInvalid, name)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// startEmbedded makes a folder; each side runs the broker in this process.
func startEmbedded() (*broker, error) {
	dir, err := os.MkdirTemp("", "synchronizer-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the broker: %w", err)
	}
	return &broker{
		about:    "The broker runs in the process of producer and consumer, on files in a temporary folder, as in `synchronizer up`.",
		library:  "nats.go with asynchronous publishing and a pull consumer on a stream of its own, the server likewise in the process",
		with:     ", the broker in it",
		encoding: queue.Compact,
		open: func(ctx context.Context) (synchronizer.Queue, error) {
			q, err := nats.OpenEmbedded(ctx, nats.EmbeddedConfig{Dir: filepath.Join(dir, "adapter"), Logger: quiet()})
			if err != nil {
				return nil, err // a nil *nats.Queue in the interface would not be nil
			}
			return q, nil
		},
		raw: func(ctx context.Context, records []synchronizer.Record) (side, error) {
			s, err := runNATS(&server.Options{StoreDir: filepath.Join(dir, "raw"), DontListen: true})
			if err != nil {
				return nil, err
			}
			connect := func() (*natsgo.Conn, error) { return natsgo.Connect("", natsgo.InProcessServer(s)) }
			return newRawNATS(ctx, connect, records, func() error {
				s.Shutdown()
				s.WaitForShutdown()
				return nil
			})
		},
		stop: func() error { return os.RemoveAll(dir) },
	}, nil
}

// runNATS starts a server with JetStream that keeps its files as the embedded queue does.
func runNATS(o *server.Options) (*server.Server, error) {
	o.JetStream, o.NoSigs, o.NoLog, o.SyncInterval = true, true, true, nats.DefaultSyncInterval
	s, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("starting NATS: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(startTimeout) || !s.JetStreamEnabled() {
		s.Shutdown()
		return nil, errors.New("starting NATS: it is not ready")
	}
	return s, nil
}
