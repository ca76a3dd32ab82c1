// SPDX-License-Identifier: Apache-2.0

package nats

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
	"github.com/nats-io/nats.go/jetstream"

	"synchronizer"
	"synchronizer/internal/filelock"
)

// Defaults of EmbeddedConfig.
const (
	DefaultMaxBytes     = 1 << 30
	DefaultMaxPayload   = 64 << 20
	DefaultSyncInterval = 10 * time.Second
)

// EmbeddedConfig says how the broker in the process keeps its records.
type EmbeddedConfig struct {
	// Dir is made (0700) if it does not exist. One process at a time uses it.
	Dir string
	// MaxBytes bounds the stream out; in may hold a quarter and dead-letter an
	// eighth of it in addition. At least 16 × MaxPayload. 0 means DefaultMaxBytes.
	MaxBytes int64
	// MaxAge is the age at which records of out are removed that no group has
	// acknowledged. 0 means never.
	MaxAge time.Duration
	// MaxPayload bounds one record, properties included. 0 means
	// DefaultMaxPayload.
	MaxPayload int
	// SyncInterval is how often files are synced; a power cut can cost so much. 0
	// means DefaultSyncInterval. With SyncAlways each record is synced before it
	// is confirmed.
	SyncInterval time.Duration
	SyncAlways   bool
	// Logger gets the broker's warnings. Nil means slog.Default().
	Logger *slog.Logger

	ackWait time.Duration // for tests
}

const (
	embeddedPrefix = "synchronizer"
	startTimeout   = 20 * time.Second
	// mostOutgoing is how much may wait to be read by this process before the
	// broker takes a connection for dead; what is asked for is bounded far below.
	mostOutgoing = 512 << 20
)

// OpenEmbedded starts the broker and returns the queue on it. The broker ends
// with Close of the queue. ctx bounds the start only.
//
// Errors name the directory: another process uses it, it cannot be written, or
// it holds files of a stream that the broker cannot read.
func OpenEmbedded(ctx context.Context, config EmbeddedConfig) (*Queue, error) {
	config = config.withDefaults()
	if config.MaxBytes < 16*int64(config.MaxPayload) {
		return nil, fmt.Errorf("%w: queue of %d bytes is too small for records of %d bytes: 16 must fit",
			synchronizer.ErrInvalid, config.MaxBytes, config.MaxPayload)
	}
	q, err := openEmbedded(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("opening queue in %s: %w", config.Dir, err)
	}
	return q, nil
}

func (c EmbeddedConfig) withDefaults() EmbeddedConfig {
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = DefaultMaxPayload
	}
	if c.SyncInterval == 0 {
		c.SyncInterval = DefaultSyncInterval
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.ackWait == 0 {
		c.ackWait = time.Minute
	}
	return c
}

func openEmbedded(ctx context.Context, config EmbeddedConfig) (_ *Queue, err error) {
	if config.Dir == "" {
		return nil, fmt.Errorf("%w: no directory given", synchronizer.ErrInvalid)
	}
	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return nil, err
	}
	held, err := filelock.Take(filepath.Join(config.Dir, "lock"))
	if err != nil {
		return nil, err
	}
	undo := []func(){func() { _ = held.Close() }}
	defer func() {
		for i := len(undo) - 1; err != nil && i >= 0; i-- {
			undo[i]()
		}
	}()

	set := settings{
		prefix: embeddedPrefix, partitions: 1, maxPayload: config.MaxPayload,
		ackWait: config.ackWait, outBytes: config.MaxBytes, outAge: config.MaxAge, replicas: 1, alone: true, logger: config.Logger,
	}
	there := set.streamsBelow(config.Dir)
	broker, err := startServer(config)
	if err != nil {
		return nil, err
	}
	stopServer := func() {
		broker.Shutdown()
		broker.WaitForShutdown()
	}
	undo = append(undo, stopServer)

	write, err := connect(broker, "write", config.Logger)
	if err != nil {
		return nil, err
	}
	undo = append(undo, write.Close)
	read, err := connect(broker, "read", config.Logger)
	if err != nil {
		return nil, err
	}
	undo = append(undo, read.Close)

	if err := allLoaded(ctx, read, there); err != nil {
		return nil, err
	}
	return newQueue(ctx, set, write, read, func() error {
		stopServer()
		return held.Close()
	})
}

func startServer(config EmbeddedConfig) (*server.Server, error) {
	broker, err := server.NewServer(&server.Options{
		ServerName: embeddedPrefix,
		DontListen: true,
		NoSigs:     true,
		NoLog:      true,

		JetStream:              true,
		StoreDir:               config.Dir,
		JetStreamMaxMemory:     8 << 20,             // only consumers of tails live there
		JetStreamMaxStore:      4 * config.MaxBytes, // the streams have limits of their own
		SyncInterval:           config.SyncInterval,
		SyncAlways:             config.SyncAlways,
		DisableJetStreamBanner: true,

		MaxPayload:    int32(config.MaxPayload),
		MaxPending:    mostOutgoing,
		WriteDeadline: time.Minute,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up broker: %w", err)
	}
	log := &bridge{logger: config.Logger}
	broker.SetLoggerV2(log, false, false, false)
	broker.Start()
	if log.gaveUp() || !broker.ReadyForConnections(startTimeout) || !broker.JetStreamEnabled() {
		broker.Shutdown()
		broker.WaitForShutdown()
		return nil, fmt.Errorf("starting broker: %w", log.last())
	}
	return broker, nil
}

func connect(broker *server.Server, name string, logger *slog.Logger) (*natsgo.Conn, error) {
	conn, err := natsgo.Connect("", natsgo.InProcessServer(broker), natsgo.Name(embeddedPrefix+" "+name),
		natsgo.MaxReconnects(-1), natsgo.ReconnectBufSize(-1), natsgo.NoCallbacksAfterClientClose(),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) {
			logger.Warn("connection to the broker", "name", name, "error", err)
		}))
	if err != nil {
		return nil, fmt.Errorf("connecting to broker: %w", err)
	}
	return conn, nil
}

// streamsBelow lists the streams of ours that have files.
func (s *settings) streamsBelow(dir string) []string {
	var names []string
	for _, d := range []synchronizer.Direction{synchronizer.Out, synchronizer.In, synchronizer.DeadLetter} {
		name := s.streamName(d)
		if _, err := os.Stat(filepath.Join(dir, "jetstream", "$G", "streams", name)); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// allLoaded refuses to go on without a stream whose files the broker could not
// read: it only logs that, and a new stream in its place would lose the records.
func allLoaded(ctx context.Context, conn *natsgo.Conn, names []string) error {
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(apiTimeout))
	if err != nil {
		return fmt.Errorf("using JetStream: %w", err)
	}
	var problems []error
	for _, name := range names {
		if _, err := js.Stream(ctx, name); err != nil {
			problems = append(problems, fmt.Errorf("files of stream %s cannot be read: %w", name, err))
		}
	}
	return errors.Join(problems...)
}
