// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// A database may come up after the process, as a broker may, and is waited for as long.
const (
	databaseTries = 20
	databasePause = 3 * time.Second
)

// awaitDatabase opens the database of a process that stays.
func (b *Backend) awaitDatabase(ctx context.Context) (database, error) {
	b.probes.opens("database")
	for try := 1; ; try++ {
		db, err := openDatabase(ctx, b.config)
		if !errors.Is(err, postgres.ErrAway) || try == databaseTries || ctx.Err() != nil {
			return db, err
		}
		b.probes.opens("database: " + err.Error())
		b.process.Logger.Warn("the database cannot be used yet, trying again", "try", try, "of", databaseTries, "error", err)
		select {
		case <-time.After(databasePause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
	}
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
