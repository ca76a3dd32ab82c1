// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"synchronizer"
)

// Defaults of Config.
const (
	DefaultPrefix       = "synchronizer"
	DefaultPartitions   = 16
	DefaultStartRetries = 20
	DefaultStartPause   = 3 * time.Second

	mostRefusals = 4
)

// Config says how to reach a NATS server, or a cluster of them, with JetStream.
type Config struct {
	// URLs of the servers, like nats://127.0.0.1:4222; tls:// insists on TLS, which
	// a server may also ask for by itself. One is enough to find the others.
	URLs []string
	// Prefix is the first token of all subjects and of the names of the streams.
	// Empty means DefaultPrefix.
	Prefix string

	// At most one of: user and password, token, file of an nkey seed, file of
	// credentials (JWT and seed).
	Username, Password string
	Token              string
	NKeySeedFile       string
	CredsFile          string
	TLS                TLS

	// Replicas is how many servers of the cluster keep a record. 0 means 1 for new
	// streams, and leaves the others as they are.
	Replicas int
	// MaxBytes bounds the stream out; in may hold a quarter and dead-letter an
	// eighth of it in addition. 0 means DefaultMaxBytes. When out is full the broker
	// refuses new records, and Publish waits.
	MaxBytes int64
	// MaxAge is the age at which records of out are removed that no group has
	// acknowledged. 0 means never.
	MaxAge time.Duration
	// Partitions of out: at most so many members of a group get work. It must be the
	// same everywhere. 0 means DefaultPartitions.
	Partitions int

	// StartRetries is how often Open tries to reach a server, with StartPause
	// between. 0 means the defaults.
	StartRetries int
	StartPause   time.Duration
	// Logger gets what happens to the connections. Nil means slog.Default().
	Logger *slog.Logger

	ackWait     time.Duration // for tests
	timing      timing
	cannotReset bool
}

// TLS names PEM files.
type TLS struct {
	CAFile            string // authorities of the servers' certificates; empty: those of the system
	CertFile, KeyFile string // certificate of this client
}

// Open connects to the broker, makes the streams that do not exist and returns the
// queue. ctx bounds the start only. A broker that cannot be reached, or is not
// ready, is tried again; wrong credentials (wrapping synchronizer.ErrUnauthorized),
// certificates that do not fit and streams that cannot be used are said at once.
//
// Later the connections come back by themselves, for ever.
func Open(ctx context.Context, config Config) (*Queue, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("opening queue on NATS: %w", err)
	}
	where := strings.Join(shown(config.URLs), ", ")
	refused := 0
	for try := 1; ; try++ {
		q, err := openOnce(ctx, config)
		pause := config.StartPause
		if errors.Is(err, natsgo.ErrTLS) && !isFinal(err) {
			// The server hung up after the handshake. It has refused our certificate, or
			// is just ending: a few times in a row is no accident.
			if refused++; refused == mostRefusals {
				err = tlsRefused(err)
			}
			pause = min(pause, lostPause)
		}
		switch {
		case err == nil:
			return q, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("opening queue on NATS at %s: %w (%w)", where, context.Cause(ctx), err)
		case isFinal(err):
			return nil, fmt.Errorf("opening queue on NATS at %s: %w", where, err)
		case try >= config.StartRetries:
			return nil, fmt.Errorf("opening queue on NATS at %s: gave up after %d tries: %w", where, try, err)
		}
		config.Logger.Warn("NATS is not ready, trying again", "servers", where, "try", try, "of", config.StartRetries, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.Partitions == 0 {
		c.Partitions = DefaultPartitions
	}
	if c.StartRetries == 0 {
		c.StartRetries = DefaultStartRetries
	}
	if c.StartPause == 0 {
		c.StartPause = DefaultStartPause
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.ackWait == 0 {
		c.ackWait = time.Minute
	}
	if c.timing == (timing{}) {
		c.timing = defaultTiming
	}
	return c
}

func (c *Config) check() error {
	ways := 0
	for _, way := range []string{c.Username, c.Token, c.NKeySeedFile, c.CredsFile} {
		if way != "" {
			ways++
		}
	}
	switch {
	case len(c.URLs) == 0:
		return fmt.Errorf("%w: no servers given", synchronizer.ErrInvalid)
	case strings.ContainsAny(c.Prefix, ".*> \t\r\n/\\"):
		return fmt.Errorf("%w: prefix %q must be one token of a subject: no dots, blanks, slashes or wildcards", synchronizer.ErrInvalid, c.Prefix)
	case ways > 1:
		return fmt.Errorf("%w: several ways to log in are given: keep one of user, token, nkey and credentials", synchronizer.ErrInvalid)
	case c.Partitions < 2:
		return fmt.Errorf("%w: %d partitions: 2 at least", synchronizer.ErrInvalid, c.Partitions)
	}
	return nil
}

// link is what the handlers of the connections know of the queue, which does not
// exist yet when they are set.
type link struct {
	queue  atomic.Pointer[Queue]
	logger *slog.Logger
}

func openOnce(ctx context.Context, config Config) (_ *Queue, err error) {
	l := &link{logger: config.Logger}
	options, err := config.options()
	if err != nil {
		return nil, err
	}
	var conns []*natsgo.Conn
	defer func() {
		if err != nil {
			for _, conn := range conns {
				conn.Close()
			}
		}
	}()
	for _, name := range []string{"write", "read"} {
		conn, err := natsgo.Connect(strings.Join(config.URLs, ","), append(l.handlers(name), options...)...)
		if err != nil {
			return nil, explain(err)
		}
		conns = append(conns, conn)
	}
	write, read := conns[0], conns[1]
	if err := newEnough(read.ConnectedServerVersion()); err != nil {
		return nil, err
	}
	q, err := newQueue(ctx, settings{
		prefix: config.Prefix, partitions: config.Partitions, maxPayload: int(min(write.MaxPayload(), mostPayload)),
		ackWait: config.ackWait, outBytes: config.MaxBytes, outAge: config.MaxAge, replicas: config.Replicas,
		timing: config.timing, cannotReset: config.cannotReset, logger: config.Logger,
	}, write, read, func() error { return nil })
	if err != nil {
		return nil, explain(err)
	}
	l.queue.Store(q)
	return q, nil
}

// handlers log what happens to a connection and tell the queue.
func (l *link) handlers(name string) []natsgo.Option {
	return []natsgo.Option{
		natsgo.Name("synchronizer " + name),
		natsgo.DisconnectErrHandler(func(_ *natsgo.Conn, err error) {
			q := l.queue.Load()
			if q == nil || q.ctx.Err() != nil {
				return
			}
			l.logger.Warn("connection to NATS was interrupted, connecting again", "name", name, "error", err)
			if name == "write" {
				q.publisher.disconnected()
			}
		}),
		natsgo.ReconnectHandler(func(*natsgo.Conn) {
			if q := l.queue.Load(); q != nil {
				l.logger.Info("connected to NATS again", "name", name)
				if name == "read" {
					q.reconnected()
				}
			}
		}),
		// The library gives up in cases that the options do not cover: nobody may wait
		// for what cannot come any more.
		natsgo.ClosedHandler(func(conn *natsgo.Conn) {
			if q := l.queue.Load(); q != nil && q.ctx.Err() == nil {
				cause := conn.LastError()
				l.logger.Error("connection to NATS has ended for good", "name", name, "error", cause)
				q.end(fmt.Errorf("connection to NATS has ended for good: %w (%w)", synchronizer.ErrClosed, errors.Join(cause, synchronizer.ErrDisconnected)))
			}
		}),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) {
			l.logger.Warn("connection to NATS", "name", name, "error", err)
		}),
	}
}

// MaxPayload is how many bytes the broker carries in one record: payload and
// properties as RecordSize counts them.
func (q *Queue) MaxPayload() int { return q.publisher.limit() }

// RecordSize is how many bytes a record takes on the broker, to be compared with
// MaxPayload. It is exact where that matters: for a record that is far below, it
// may be more.
func (q *Queue) RecordSize(r *synchronizer.Record) int {
	most := headerFrame + len(headerEscaped) + len(headerKey) + 2*lineFrame + 1 + 3*len(r.Key) + len(r.Payload)
	for i := range r.Properties {
		most += 3*(len(r.Properties[i].Name)+len(r.Properties[i].Value)) + lineFrame + 3
	}
	if most <= q.publisher.limit() {
		return most
	}
	var h headers
	_, hashed := q.subject(synchronizer.Out, r.Key)
	_, size := q.publisher.headers(&h, r, hashed)
	return size + len(r.Payload)
}

// newEnough refuses servers that cannot pin a consumer to a client.
func newEnough(version string) error {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return nil // not a version of the server that we know
	}
	if major < 2 || major == 2 && minor < 11 {
		return fmt.Errorf("%w: the server is version %s: 2.11 or newer is needed", synchronizer.ErrInvalid, version)
	}
	return nil
}

func tlsRefused(err error) error {
	return fmt.Errorf("connecting: %w: TLS does not fit: check the CA, and the certificate and key of this client (%w)", synchronizer.ErrInvalid, err)
}

// explain adds what a person can do.
func explain(err error) error {
	switch {
	case errors.Is(err, natsgo.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return fmt.Errorf("JetStream does not answer: start nats-server with JetStream (-js): %w", err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("JetStream is not enabled for the account: %w", err)
	case unauthorized(err):
		return fmt.Errorf("connecting: %w: the server refused the credentials: check user and password, token, nkey or credentials (%w)",
			synchronizer.ErrUnauthorized, err)
	case badTLS(err):
		return tlsRefused(err)
	case errors.Is(err, natsgo.ErrNoServers):
		return fmt.Errorf("connecting: nobody answers there: %w", err)
	}
	return err
}
