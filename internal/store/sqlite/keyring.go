// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"synchronizer"
)

var _ synchronizer.Keyring = (*DB)(nil)

// keyColumns are what scanKey reads.
const keyColumns = "SELECT lower(hex(substr(hash, 1, 8))), account, cluster, description, created, revoked_at FROM access_keys"

func scanKey(rows *sql.Rows) (key synchronizer.IssuedKey, err error) {
	var created, revoked int64
	err = rows.Scan(&key.ID, &key.Account, &key.Cluster, &key.Description, &created, &revoked)
	key.Created, key.Revoked = fromMicros(created), fromMicros(revoked)
	return key, err
}

// IssueAccessKey implements synchronizer.Keyring.
func (db *DB) IssueAccessKey(ctx context.Context, hash [32]byte, key synchronizer.IssuedKey) error {
	if err := key.Validate(); err != nil {
		return fmt.Errorf("adding an access key: %w", err)
	}
	return db.write.run(ctx, func(t *tx) error {
		found, err := t.accessKey(ctx, "", synchronizer.SecretID(hash))
		switch {
		case err == nil:
			return fmt.Errorf("adding an access key: %w: this key is known already, as %s", synchronizer.ErrInvalid, found.ID)
		case !errors.Is(err, synchronizer.ErrNotFound):
			return err
		}
		return t.writer.exec(ctx, "adding an access key",
			"INSERT INTO access_keys (hash, account, cluster, description, created) VALUES (?, ?, ?, ?, ?)",
			hash[:], key.Account, key.Cluster, key.Description, micros(key.Created))
	})
}

// AccessKeys implements synchronizer.Keyring.
func (db *DB) AccessKeys(ctx context.Context, account string) (keys []synchronizer.IssuedKey, err error) {
	err = db.reading(ctx, func(r *sql.Tx) error {
		rows, err := r.QueryContext(ctx, keyColumns+" WHERE ?1 = '' OR account = ?1 ORDER BY account, cluster, created, hash", account)
		if err != nil {
			return db.failure("listing access keys", err)
		}
		for err == nil && rows.Next() {
			var key synchronizer.IssuedKey
			key, err = scanKey(rows)
			keys = append(keys, key)
		}
		if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
			return db.failure("listing access keys", err)
		}
		return nil
	})
	return keys, err
}

// RevokeAccessKey implements synchronizer.Keyring.
func (db *DB) RevokeAccessKey(ctx context.Context, account, id string, at time.Time) (key synchronizer.IssuedKey, err error) {
	err = db.write.run(ctx, func(t *tx) error {
		if key, err = t.accessKey(ctx, account, id); err != nil || !key.Revoked.IsZero() {
			return err
		}
		if err := t.writer.exec(ctx, "revoking an access key",
			"UPDATE access_keys SET revoked_at = ? WHERE lower(hex(substr(hash, 1, 8))) = ?", micros(at), id); err != nil {
			return err
		}
		key.Revoked = fromMicros(micros(at))
		return nil
	})
	return key, err
}

// accessKey reads a key by its ID; there are few enough to look at all of them.
func (t *tx) accessKey(ctx context.Context, account, id string) (key synchronizer.IssuedKey, err error) {
	found := false
	err = t.writer.query(ctx, "reading an access key", keyColumns+" WHERE lower(hex(substr(hash, 1, 8))) = ?1 AND (?2 = '' OR account = ?2)",
		[]any{id, account}, func(rows *sql.Rows) (err error) {
			found = true
			key, err = scanKey(rows)
			return err
		})
	if err == nil && !found {
		err = fmt.Errorf("access key %q: %w", id, synchronizer.ErrNotFound)
	}
	return key, err
}
