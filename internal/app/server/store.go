// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"synchronizer"
	"synchronizer/internal/config"
	"synchronizer/internal/store/postgres"
	"synchronizer/internal/store/sqlite"
)

// StoreSettings say which store a command means.
type StoreSettings struct {
	ConfigDir string // "": CONFIG, else the defaults of `synchronizer up`
	DataDir   string // "": that of the configuration
	Migrate   bool   // change an older schema; without it, that is an error
}

// OpenedStore is a store for an administrator, beside the servers.
type OpenedStore struct {
	synchronizer.Inspector
	synchronizer.Remover
	Close func() error
	// Warnings are about the configuration.
	Warnings config.Warnings
	// Name says which database it is; no password is in it.
	Name string
}

// administered is a store with everything that an administrator wants of it.
type administered interface {
	synchronizer.Inspector
	synchronizer.Remover
	Close() error
}

// OpenStore opens the store that a configuration names. A SQLite file that a
// running server has is an error, as is one that does not exist, unless it is to be
// migrated.
func OpenStore(ctx context.Context, s StoreSettings) (*OpenedStore, error) {
	// It listens nowhere, so how clients are let in does not matter.
	env, load := config.OS().With("SYNCHRONIZER_BACKEND_LISTEN", "127.0.0.1:0"), config.LoadUp
	if s.ConfigDir != "" {
		env, load = env.With("CONFIG", s.ConfigDir), config.LoadServer
	}
	c, warnings, err := load(env)
	if err != nil {
		return nil, err
	}
	if s.DataDir != "" {
		c.Backend.DataDir = s.DataDir
	}
	opened := &OpenedStore{Warnings: warnings}
	var db administered
	if url := c.Store.Postgres.URL.Reveal(); url != "" {
		opened.Name = "PostgreSQL of store.postgres.url"
		var options []postgres.Option
		if !s.Migrate {
			options = append(options, postgres.WithoutMigration())
		}
		db, err = postgres.Open(ctx, url, options...)
	} else {
		opened.Name = c.SQLitePath()
		var options []sqlite.Option
		if !s.Migrate {
			if _, err := os.Stat(opened.Name); errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("opening the store: there is no %s; name another folder with --data-dir, or a configuration with --config", opened.Name)
			}
			options = append(options, sqlite.WithoutMigration())
		}
		db, err = sqlite.Open(ctx, opened.Name, options...)
	}
	if err != nil {
		return nil, err
	}
	opened.Inspector, opened.Remover, opened.Close = db, db, db.Close
	return opened, nil
}
