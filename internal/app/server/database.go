// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"synchronizer"
	"synchronizer/internal/config"
	"synchronizer/internal/store/sqlite"
)

// database is a store with everything that the processes of a backend want of it.
type database interface {
	synchronizer.Store
	synchronizer.Inventory
	synchronizer.Reader
	synchronizer.Credentials
}

// openDatabase opens what the section store chooses.
func openDatabase(ctx context.Context, c *config.Config) (database, error) {
	db, err := sqlite.Open(ctx, c.SQLitePath())
	if err != nil {
		return nil, err // a nil *sqlite.DB in the interface would not be nil
	}
	return db, nil
}
