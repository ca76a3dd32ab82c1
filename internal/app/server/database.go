// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"

	"synchronizer"
	"synchronizer/internal/config"
	"synchronizer/internal/ingest"
	"synchronizer/internal/store/postgres"
	"synchronizer/internal/store/sqlite"
)

// database is a store with everything that the processes of a backend want of it.
type database interface {
	synchronizer.Store
	synchronizer.Inventory
	synchronizer.Reader
	synchronizer.Credentials
	synchronizer.Keyring
	synchronizer.Events
	ingest.Forgetting
}

// openDatabase opens what the section store chooses.
func openDatabase(ctx context.Context, c *config.Config) (database, error) {
	var db database
	var err error
	if url := c.Store.Postgres.URL.Reveal(); url != "" {
		if db, err = postgres.Open(ctx, url); err != nil {
			err = fmt.Errorf("store.postgres.url: %w", err)
		}
	} else {
		db, err = sqlite.Open(ctx, c.SQLitePath())
	}
	if err != nil {
		return nil, err // a nil pointer of a store in the interface would not be nil
	}
	return db, nil
}
