// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"synchronizer"
	"synchronizer/internal/store/walk"
)

var (
	_ synchronizer.Store       = (*DB)(nil)
	_ synchronizer.Reader      = (*DB)(nil)
	_ synchronizer.Inventory   = (*DB)(nil)
	_ synchronizer.Credentials = (*DB)(nil)
	_ synchronizer.Feed        = (*DB)(nil)
	_ synchronizer.Sets        = (*DB)(nil)
	_ synchronizer.Events      = (*DB)(nil)
	_ synchronizer.Keeper      = (*DB)(nil)
	_ synchronizer.Remover     = (*DB)(nil)
	_ synchronizer.Inspector   = (*DB)(nil)
)

const (
	// connections is how many a process opens at most, unless its URL says
	// otherwise (pool_max_conns).
	connections = 10
	// connectTimeout is how long one attempt to connect takes at most, unless the
	// URL says otherwise (connect_timeout).
	connectTimeout = 10 * time.Second
	// commitTimeout is how long a commit may take. Its end is not that of the
	// caller's context, so that it is seldom left open whether it happened.
	commitTimeout = time.Minute
	// attempts is how often a transaction is tried that others were in the way of.
	attempts = 20
)

// DB is the store on one database of a server. All methods may be called at the
// same time.
type DB struct {
	name     string // for people: server and database
	pool     *pgxpool.Pool
	settings settings
	ids      idBlock
	feed     feedLengths

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // whoever works with the pool; added to only while not closed
}

type settings struct {
	feedLength int64
	migrate    bool
	limits     walk.Limits
}

// Option changes how a database is opened.
type Option func(*settings)

// WithFeedLength sets how many of the latest changes of each account are kept in
// the change feed (1,000,000 by default), to one in a hundred.
func WithFeedLength(changes int64) Option {
	return func(s *settings) { s.feedLength = max(changes, 1) }
}

// WithoutMigration lets Open fail with ErrNotMigrated where it would have changed
// the schema.
func WithoutMigration() Option {
	return func(s *settings) { s.migrate = false }
}

// Open opens the database that url names (postgres://… or key=value), or the
// environment (PGHOST, PGUSER, …) where url says nothing, and migrates its schema:
// processes that open it at the same time wait for each other. Errors name the
// server, never a password; they wrap ErrAway, ErrNotMigrated or
// synchronizer.ErrSchemaTooNew where one of these is the reason.
func Open(ctx context.Context, url string, opts ...Option) (*DB, error) {
	s := settings{feedLength: 1_000_000, migrate: true, limits: walk.DefaultLimits}
	for _, opt := range opts {
		opt(&s)
	}
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	name := nameOf(config.ConnConfig)
	if err := prepare(ctx, config.ConnConfig, name, s.migrate); err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, failure("opening the database", name, err)
	}
	return &DB{name: name, pool: pool, settings: s}, nil
}

// parse reads a URL and adds what every connection needs.
func parse(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		// What the driver says may show a part of the password.
		return nil, fmt.Errorf("reading the database URL: %w: it is none of the form postgres://user:password@host:5432/database?sslmode=verify-full, "+
			"or a file that it names (sslrootcert, passfile) cannot be read", synchronizer.ErrInvalid)
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = connections
	}
	c := config.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	dialer := &net.Dialer{
		// A server that has vanished is noticed in less than a minute.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 4},
		Control:         limitUnacknowledged,
	}
	c.DialFunc = dialer.DialContext
	for name, value := range map[string]string{
		"application_name": "synchronizer",
		"timezone":         "UTC",
		"jit":              "off", // no query here is long enough to be worth compiling
		// A process that hangs in a transaction must not hold up the others for ever.
		"idle_in_transaction_session_timeout": "300000",
	} {
		if _, given := c.RuntimeParams[name]; !given {
			c.RuntimeParams[name] = value
		}
	}
	return config, nil
}

// nameOf names a database for people.
func nameOf(c *pgx.ConnConfig) string {
	return fmt.Sprintf("PostgreSQL %s:%d/%s", c.Host, c.Port, c.Database)
}

// Close waits for running queries and transactions. Further calls return
// synchronizer.ErrClosed.
func (db *DB) Close() error {
	db.mu.Lock()
	db.closed = true
	db.mu.Unlock()
	db.work.Wait()
	db.pool.Close()
	return nil
}

// working keeps the pool open until the function is called.
func (db *DB) working() (done func(), err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, fmt.Errorf("%w: %s", synchronizer.ErrClosed, db.name)
	}
	db.work.Add(1)
	return db.work.Done, nil
}

// reading runs fn in one read transaction, which sees one state of the database.
// If the connection was lost before, as all are by a restart of the server, it is
// tried again on a new one.
func (db *DB) reading(ctx context.Context, doing string, fn func(pgx.Tx) error) error {
	done, err := db.working()
	if err != nil {
		return err
	}
	defer done()
	for attempt := 1; ; attempt++ {
		called := false
		err = pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			called = true
			return fn(tx)
		})
		if attempt == 1 && !called && connectionLost(err) && ctx.Err() == nil {
			db.pool.Reset()
			continue
		}
		if err != nil {
			return db.failure(doing, contextError(ctx, err))
		}
		return nil
	}
}
