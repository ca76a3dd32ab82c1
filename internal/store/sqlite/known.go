// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"synchronizer"
)

// walkKnown goes along objects_key; rows behind it are read without their bodies.
const walkKnown = "SELECT o.ns, o.name, o.rv, o.checksum FROM objects o WHERE o.kind = ? AND o.deleted_at = 0 ORDER BY o.ns, o.name"

// Known implements synchronizer.Inventory. One row is in memory at a time.
func (db *DB) Known(ctx context.Context, kind synchronizer.ClusterKind, each func(*synchronizer.Row) error) error {
	if err := kind.ClusterID.Validate(); err != nil {
		return err
	}
	var stopped error // by each: returned as it is
	err := db.reading(ctx, func(r *sql.Tx) error {
		kinds, err := of(kind).kinds(ctx, r, nil)
		if err != nil || len(kinds) == 0 {
			return err
		}
		rows, err := r.QueryContext(ctx, walkKnown, kinds[0].ID)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		row := synchronizer.Row{Key: synchronizer.ObjectKey{ClusterID: kind.ClusterID, Kind: kind.Kind}}
		for rows.Next() {
			if err := rows.Scan(&row.Key.Namespace, &row.Key.Name, &row.ResourceVersion, &row.Checksum); err != nil {
				return err
			}
			if stopped = each(&row); stopped != nil {
				return nil
			}
		}
		return rows.Err()
	})
	switch {
	case stopped != nil:
		return stopped
	case err != nil && !errors.Is(err, synchronizer.ErrClosed):
		return db.failure("reading what is known of "+kind.Kind.String(), contextError(ctx, err))
	}
	return err
}
