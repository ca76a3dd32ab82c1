// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"

	"synchronizer"
	"synchronizer/internal/config"
	"synchronizer/internal/store/sqlite"
)

// Keys are the access keys of the store that a configuration names, for a command
// that runs beside the servers.
type Keys struct {
	synchronizer.Keyring
	Close func() error
	// Warnings are about the configuration.
	Warnings config.Warnings
	// Used is false where servers of this configuration let clients in by other means.
	Used bool
}

// InUseError says that a running server has the SQLite file, and how to reach it.
type InUseError struct {
	API       string // api.listen of the configuration
	TokenFile string
	Used      bool // as in Keys
	Err       error
}

func (e *InUseError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *InUseError) Unwrap() error { return e.Err }

// OpenKeys opens the access keys for the configuration of a folder ("": CONFIG).
// An error that is an *InUseError means that the running server has to be asked.
func OpenKeys(ctx context.Context, configDir string) (*Keys, error) {
	env := config.OS()
	if configDir != "" {
		env = env.With("CONFIG", configDir)
	}
	c, warnings, err := config.LoadServer(env)
	if err != nil {
		return nil, err
	}
	used := c.Backend.AccessKeys == config.AccessKeysStore
	db, err := openDatabase(ctx, c)
	switch {
	case errors.Is(err, sqlite.ErrInUse) && c.API.Listen != "":
		return nil, &InUseError{API: c.API.Listen, TokenFile: TokenFile(c.Backend.DataDir), Used: used, Err: err}
	case errors.Is(err, sqlite.ErrInUse):
		return nil, fmt.Errorf("%w (or let it serve its API: set api.listen)", err)
	case err != nil:
		return nil, err
	}
	return &Keys{Keyring: db, Close: db.Close, Warnings: warnings, Used: used}, nil
}
