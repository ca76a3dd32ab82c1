// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"synchronizer"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the number of the advisory lock under which a schema is
// changed ("SyncMigr").
const migrationLock = 0x53796e634d696772

// Migrate brings the schema of a database to this program's version and says which
// versions those were. See Open for url and errors.
func Migrate(ctx context.Context, url string) (from, to int64, err error) {
	config, err := parse(url)
	if err != nil {
		return 0, 0, err
	}
	return migrate(ctx, config.ConnConfig, nameOf(config.ConnConfig), true)
}

// prepare makes sure that a database is one that this program can work with.
func prepare(ctx context.Context, config *pgx.ConnConfig, name string, change bool) error {
	_, _, err := migrate(ctx, config, name, change)
	return err
}

// migrate compares versions, and changes the schema if it may, each step in a
// transaction of its own.
func migrate(ctx context.Context, config *pgx.ConnConfig, name string, change bool) (from, to int64, err error) {
	locked, err := lockSchema(ctx, config)
	if err != nil {
		return 0, 0, failure("opening the database", name, contextError(ctx, err))
	}
	defer func() { _ = locked.Close(context.WithoutCancel(ctx)) }() // which gives the lock back
	if err := suitable(ctx, locked, name); err != nil {
		return 0, 0, err
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return 0, 0, fmt.Errorf("reading the migrations: %w", err)
	}
	pool := stdlib.OpenDB(*config)
	defer func() { _ = pool.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, pool, files, goose.WithDisableGlobalRegistry(true), goose.WithTableName("schema_versions"))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the migrations: %w", err)
	}
	from, to, err = versions(ctx, locked, provider)
	switch {
	case err != nil:
		return 0, 0, failure("reading the schema version", name, contextError(ctx, err))
	case from > to:
		return from, to, fmt.Errorf("%w: %s has schema version %d, this program knows up to %d; use the newer program or another database",
			synchronizer.ErrSchemaTooNew, name, from, to)
	case from < to && !change:
		return from, to, fmt.Errorf("%w: %s has schema version %d, this program needs %d; type: synchronizer store migrate",
			ErrNotMigrated, name, from, to)
	case from < to:
		if _, err := provider.Up(ctx); err != nil {
			return from, to, failure("migrating the schema", name, contextError(ctx, err))
		}
	}
	return from, to, nil
}

// versions gives that of the database, 0 for an empty one, and this program's.
// Nothing is written: who may only look has no rights to.
func versions(ctx context.Context, conn *pgx.Conn, provider *goose.Provider) (have, want int64, err error) {
	for _, source := range provider.ListSources() {
		want = max(want, source.Version)
	}
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('schema_versions') IS NOT NULL").Scan(&there); err != nil || !there {
		return 0, want, err
	}
	err = conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM schema_versions WHERE is_applied").Scan(&have)
	return have, want, err
}

// lockSchema gives a connection that holds the lock, however long that takes.
func lockSchema(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(migrationLock)); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

// suitable refuses a server or database that cannot keep what is written to it.
func suitable(ctx context.Context, conn *pgx.Conn, name string) error {
	var version int
	var encoding string
	err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')").Scan(&version, &encoding)
	switch {
	case err != nil:
		return failure("reading the server version", name, contextError(ctx, err))
	case version < 140000:
		return fmt.Errorf("opening the database (%s): PostgreSQL %d is too old; 14 is the oldest that works", name, version/10000)
	case encoding != "UTF8":
		return fmt.Errorf("opening the database (%s): its encoding is %s; make one with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", name, encoding)
	}
	return nil
}
