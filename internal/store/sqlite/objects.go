// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"synchronizer"
	"synchronizer/internal/store/walk"
)

// Objects implements synchronizer.Reader. A page can be shorter than the limit,
// even empty, and still have a token to continue with: see package walk.
func (db *DB) Objects(ctx context.Context, q synchronizer.ObjectQuery) (synchronizer.ObjectPage, error) {
	query, err := walk.NewQuery(&q)
	if err != nil {
		return synchronizer.ObjectPage{}, err
	}
	s := scope{account: q.Account, clusters: q.Clusters, groups: query.Groups, versions: q.Versions, resources: q.Resources}
	var page synchronizer.ObjectPage
	err = db.reading(ctx, func(tx *sql.Tx) error {
		kinds, err := s.kinds(ctx, tx, query.From)
		if err != nil {
			return err
		}
		r := newReader(tx, query.Words())
		defer r.close()
		page, err = walk.Page(ctx, r, query, db.limits, kinds)
		return err
	})
	if err != nil {
		return synchronizer.ObjectPage{}, db.failure("reading objects", contextError(ctx, err))
	}
	return page, nil
}

// Object implements synchronizer.Reader.
func (db *DB) Object(ctx context.Context, key synchronizer.ObjectKey) (*synchronizer.Row, error) {
	if err := key.ClusterID.Validate(); err != nil {
		return nil, err
	}
	row := &synchronizer.Row{Key: key}
	err := db.reading(ctx, func(r *sql.Tx) error {
		kinds, err := of(synchronizer.ClusterKind{ClusterID: key.ClusterID, Kind: key.Kind}).kinds(ctx, r, nil)
		if err != nil {
			return err
		}
		if len(kinds) == 0 {
			return sql.ErrNoRows
		}
		rows, err := r.QueryContext(ctx, "SELECT "+rowColumns+", o.body FROM objects o WHERE o.kind = ? AND o.ns = ? AND o.name = ?",
			kinds[0].ID, key.Namespace, key.Name)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		if !rows.Next() {
			return errors.Join(rows.Err(), sql.ErrNoRows)
		}
		return scanRow(rows, row, &row.Body)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("reading %s: %w", key, synchronizer.ErrNotFound)
	case err != nil:
		return nil, db.failure("reading "+key.String(), contextError(ctx, err))
	}
	return row, nil
}
