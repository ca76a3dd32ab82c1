// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"synchronizer"
)

var _ synchronizer.Keyring = (*DB)(nil)

const (
	keyID = "encode(substring(hash FROM 1 FOR 8), 'hex')"
	// keyColumns are what scanKey reads.
	keyColumns = "SELECT " + keyID + ", account, cluster, description, created, revoked_at FROM access_keys"
)

func scanKey(rows pgx.Rows) (key synchronizer.IssuedKey, err error) {
	var created, revoked pgtype.Timestamptz
	err = rows.Scan(&key.ID, &key.Account, &key.Cluster, &key.Description, &created, &revoked)
	key.Account, key.Cluster, key.Description = fromText(key.Account), fromText(key.Cluster), fromText(key.Description)
	key.Created, key.Revoked = fromTime(created), fromTime(revoked)
	return key, err
}

// IssueAccessKey implements synchronizer.Keyring.
func (db *DB) IssueAccessKey(ctx context.Context, hash [32]byte, key synchronizer.IssuedKey) error {
	if err := key.Validate(); err != nil {
		return fmt.Errorf("adding an access key: %w", err)
	}
	return db.update(ctx, func(t *tx) error {
		found, err := t.accessKey(ctx, "", synchronizer.SecretID(hash))
		switch {
		case err == nil:
			return fmt.Errorf("adding an access key: %w: this key is known already, as %s", synchronizer.ErrInvalid, found.ID)
		case !errors.Is(err, synchronizer.ErrNotFound):
			return err
		}
		return t.exec(ctx, "adding an access key", "INSERT INTO access_keys (hash, account, cluster, description, created) VALUES ($1, $2, $3, $4, $5)",
			hash[:], toText(key.Account), toText(key.Cluster), toText(key.Description), toTime(key.Created))
	})
}

// AccessKeys implements synchronizer.Keyring.
func (db *DB) AccessKeys(ctx context.Context, account string) (keys []synchronizer.IssuedKey, err error) {
	err = db.reading(ctx, "listing access keys", func(r pgx.Tx) error {
		keys = nil // it may be tried again
		rows, err := r.Query(ctx, keyColumns+` WHERE $1 = '' OR account = $1 ORDER BY account COLLATE "C", cluster COLLATE "C", created, hash`, toText(account))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			key, err := scanKey(rows)
			if err != nil {
				return err
			}
			keys = append(keys, key)
		}
		return rows.Err()
	})
	return keys, err
}

// RevokeAccessKey implements synchronizer.Keyring.
func (db *DB) RevokeAccessKey(ctx context.Context, account, id string, at time.Time) (key synchronizer.IssuedKey, err error) {
	err = db.update(ctx, func(t *tx) error {
		if key, err = t.accessKey(ctx, account, id); err != nil || !key.Revoked.IsZero() {
			return err
		}
		if err := t.exec(ctx, "revoking an access key", "UPDATE access_keys SET revoked_at = $1 WHERE "+keyID+" = $2", toTime(at), id); err != nil {
			return err
		}
		key.Revoked = at.UTC().Truncate(time.Microsecond)
		return nil
	})
	return key, err
}

// accessKey reads and locks a key by its ID; there are few enough to look at all
// of them.
func (t *tx) accessKey(ctx context.Context, account, id string) (key synchronizer.IssuedKey, err error) {
	found := false
	err = t.query(ctx, "reading an access key", keyColumns+" WHERE "+keyID+" = $1 AND ($2 = '' OR account = $2) FOR UPDATE",
		[]any{toText(id), toText(account)}, func(rows pgx.Rows) (err error) {
			found = true
			key, err = scanKey(rows)
			return err
		})
	if err == nil && !found {
		err = fmt.Errorf("access key %q: %w", id, synchronizer.ErrNotFound)
	}
	return key, err
}
