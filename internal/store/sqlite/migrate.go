// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"synchronizer"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema to this program's version, each step in a
// transaction of its own. The caller holds the lock of the file.
func migrate(ctx context.Context, pool *sql.DB, path string) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, pool, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	have, want, err := provider.GetVersions(ctx)
	if err != nil {
		return failure("reading the schema version", path, err)
	}
	if have > want {
		return fmt.Errorf("%w: %s has schema version %d, this program knows up to %d; use the newer program or another data directory",
			synchronizer.ErrSchemaTooNew, path, have, want)
	}
	if _, err := provider.Up(ctx); err != nil {
		return failure("migrating the schema", path, err)
	}
	return nil
}
