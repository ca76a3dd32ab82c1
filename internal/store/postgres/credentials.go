// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"synchronizer"
)

// AccessKey implements synchronizer.Credentials.
func (db *DB) AccessKey(ctx context.Context, hash [32]byte) (synchronizer.AccessKey, error) {
	var key synchronizer.AccessKey
	var created pgtype.Timestamptz
	err := db.credential(ctx, "reading an access key",
		"SELECT account, cluster, created FROM access_keys WHERE hash = $1 AND revoked_at IS NULL", hash,
		&key.Account, &key.Cluster, &created)
	if err != nil {
		return synchronizer.AccessKey{}, err
	}
	key.Account, key.Cluster, key.Created = fromText(key.Account), fromText(key.Cluster), fromTime(created)
	return key, nil
}

// AddAccessKey implements synchronizer.Credentials. A hash that is known wraps
// synchronizer.ErrInvalid: a key is never made to mean something else.
func (db *DB) AddAccessKey(ctx context.Context, hash [32]byte, key synchronizer.AccessKey) error {
	if key.Account == "" {
		return fmt.Errorf("adding an access key: %w: account is empty", synchronizer.ErrInvalid)
	}
	return db.update(ctx, func(t *tx) error {
		return t.exec(ctx, "adding an access key", "INSERT INTO access_keys (hash, account, cluster, created) VALUES ($1, $2, $3, $4)",
			hash[:], toText(key.Account), toText(key.Cluster), toTime(key.Created))
	})
}

// APIToken implements synchronizer.Credentials.
func (db *DB) APIToken(ctx context.Context, hash [32]byte) (synchronizer.APIToken, error) {
	var token synchronizer.APIToken
	var created pgtype.Timestamptz
	err := db.credential(ctx, "reading an API token",
		"SELECT account, cluster, scope, created FROM api_tokens WHERE hash = $1 AND revoked_at IS NULL", hash,
		&token.Account, &token.Cluster, &token.Scope, &created)
	if err != nil {
		return synchronizer.APIToken{}, err
	}
	token.Account, token.Cluster, token.Created = fromText(token.Account), fromText(token.Cluster), fromTime(created)
	return token, nil
}

// scopes are what an API token may be for.
var scopes = []string{"read", "command", "admin"}

// AddAPIToken implements synchronizer.Credentials; see AddAccessKey.
func (db *DB) AddAPIToken(ctx context.Context, hash [32]byte, token synchronizer.APIToken) error {
	if !slices.Contains(scopes, token.Scope) {
		return fmt.Errorf("adding an API token: %w: scope %q is none of %v", synchronizer.ErrInvalid, token.Scope, scopes)
	}
	return db.update(ctx, func(t *tx) error {
		return t.exec(ctx, "adding an API token", "INSERT INTO api_tokens (hash, account, cluster, scope, created) VALUES ($1, $2, $3, $4, $5)",
			hash[:], toText(token.Account), toText(token.Cluster), token.Scope, toTime(token.Created))
	})
}

func (db *DB) credential(ctx context.Context, doing, text string, hash [32]byte, into ...any) error {
	found := true
	err := db.reading(ctx, doing, func(r pgx.Tx) error {
		err := r.QueryRow(ctx, text, hash[:]).Scan(into...)
		if errors.Is(err, pgx.ErrNoRows) {
			found, err = false, nil
		}
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: %w", doing, synchronizer.ErrNotFound)
	}
	return err
}
