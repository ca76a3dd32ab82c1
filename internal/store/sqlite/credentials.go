// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"synchronizer"
)

// AccessKey implements synchronizer.Credentials.
func (db *DB) AccessKey(ctx context.Context, hash [32]byte) (synchronizer.AccessKey, error) {
	var key synchronizer.AccessKey
	var created int64
	err := db.credential(ctx, "reading an access key",
		"SELECT account, cluster, created FROM access_keys WHERE hash = ? AND revoked_at = 0", hash,
		&key.Account, &key.Cluster, &created)
	if err != nil {
		return synchronizer.AccessKey{}, err
	}
	key.Created = fromMicros(created)
	return key, nil
}

// AddAccessKey implements synchronizer.Credentials. A hash that is known wraps
// synchronizer.ErrInvalid: a key is never made to mean something else.
func (db *DB) AddAccessKey(ctx context.Context, hash [32]byte, key synchronizer.AccessKey) error {
	if key.Account == "" {
		return fmt.Errorf("adding an access key: %w: account is empty", synchronizer.ErrInvalid)
	}
	return db.write.run(ctx, func(t *tx) error {
		return t.writer.exec(ctx, "adding an access key",
			"INSERT INTO access_keys (hash, account, cluster, created) VALUES (?, ?, ?, ?)",
			hash[:], key.Account, key.Cluster, micros(key.Created))
	})
}

// APIToken implements synchronizer.Credentials.
func (db *DB) APIToken(ctx context.Context, hash [32]byte) (synchronizer.APIToken, error) {
	var token synchronizer.APIToken
	var created int64
	err := db.credential(ctx, "reading an API token",
		"SELECT account, cluster, scope, created FROM api_tokens WHERE hash = ? AND revoked_at = 0", hash,
		&token.Account, &token.Cluster, &token.Scope, &created)
	if err != nil {
		return synchronizer.APIToken{}, err
	}
	token.Created = fromMicros(created)
	return token, nil
}

// scopes are what an API token may be for.
var scopes = []string{"read", "command", "admin"}

// AddAPIToken implements synchronizer.Credentials; see AddAccessKey.
func (db *DB) AddAPIToken(ctx context.Context, hash [32]byte, token synchronizer.APIToken) error {
	if !slices.Contains(scopes, token.Scope) {
		return fmt.Errorf("adding an API token: %w: scope %q is none of %v", synchronizer.ErrInvalid, token.Scope, scopes)
	}
	return db.write.run(ctx, func(t *tx) error {
		return t.writer.exec(ctx, "adding an API token",
			"INSERT INTO api_tokens (hash, account, cluster, scope, created) VALUES (?, ?, ?, ?, ?)",
			hash[:], token.Account, token.Cluster, token.Scope, micros(token.Created))
	})
}

func (db *DB) credential(ctx context.Context, doing, text string, hash [32]byte, into ...any) error {
	return db.reading(ctx, func(r *sql.Tx) error {
		err := r.QueryRowContext(ctx, text, hash[:]).Scan(into...)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("%s: %w", doing, synchronizer.ErrNotFound)
		case err != nil:
			return db.failure(doing, err)
		}
		return nil
	})
}
