// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"synchronizer"
	"synchronizer/internal/store/index"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema to this program's version, each step in a
// transaction of its own, if change allows it. The caller holds the lock of the
// file.
func migrate(ctx context.Context, pool *sql.DB, path string, change bool) (from, to int64, err error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return 0, 0, fmt.Errorf("reading the migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, pool, files, goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(goose.NewGoMigration(3, &goose.GoFunc{RunTx: indexBodies}, nil)))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the migrations: %w", err)
	}
	from, to, err = provider.GetVersions(ctx)
	switch {
	case err != nil:
		return 0, 0, failure("reading the schema version", path, err)
	case from > to:
		return from, to, fmt.Errorf("%w: %s has schema version %d, this program knows up to %d; use the newer program or another data directory",
			synchronizer.ErrSchemaTooNew, path, from, to)
	case from < to && !change:
		return from, to, fmt.Errorf("%w: %s has schema version %d, this program needs %d; type: synchronizer store migrate",
			ErrNotMigrated, path, from, to)
	case from < to:
		if _, err := provider.Up(ctx); err != nil {
			return from, to, failure("migrating the schema", path, err)
		}
	}
	return from, to, nil
}

// Migrate brings the schema of the database file to this program's version and
// says which versions those were. See Open for errors.
func Migrate(ctx context.Context, path string) (from, to int64, err error) {
	db, err := Open(ctx, path, func(s *settings) { s.migrated = func(a, b int64) { from, to = a, b } })
	if err != nil {
		return 0, 0, err
	}
	return from, to, db.Close()
}

// indexBodies fills what version 2 has added and is computed of the objects.
func indexBodies(ctx context.Context, tx *sql.Tx) error {
	last := int64(0)
	for {
		found, err := readBodies(ctx, tx, last)
		if err != nil || len(found) == 0 {
			return err
		}
		for i := range found {
			f := &found[i]
			last = f.id
			entry := index.Of(&f.key, f.body)
			h1, h2 := entryHash(&f.key, [16]byte{})
			if _, err := tx.ExecContext(ctx, "UPDATE objects SET words = ?, h1 = ?, h2 = ? WHERE id = ?", nullSum(entry.Words), h1, h2, f.id); err != nil {
				return err
			}
			for _, word := range entry.Words {
				if _, err := tx.ExecContext(ctx, "INSERT INTO words (word, kind, obj) VALUES (?, ?, ?)", word, f.kind, f.id); err != nil {
					return err
				}
			}
		}
	}
}

type bodyRow struct {
	id, kind int64
	key      synchronizer.ObjectKey
	body     []byte
}

// readBodies reads the next live objects, few enough for any body size.
func readBodies(ctx context.Context, tx *sql.Tx, after int64) (found []bodyRow, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT id, kind, ns, name, body FROM objects WHERE id > ? AND deleted_at = 0 ORDER BY id LIMIT 100", after)
	if err != nil {
		return nil, err
	}
	for err == nil && rows.Next() {
		var f bodyRow
		err = rows.Scan(&f.id, &f.kind, &f.key.Namespace, &f.key.Name, &f.body)
		found = append(found, f)
	}
	return found, errors.Join(err, rows.Err(), rows.Close())
}
