// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

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
	err = db.reading(ctx, "reading objects", func(tx pgx.Tx) error {
		kinds, err := s.kinds(ctx, tx, query.From)
		if err != nil {
			return err
		}
		if err := keepToIndexes(ctx, tx, query.Terms(), len(q.Names) > 0 || q.NamePrefix != ""); err != nil {
			return err
		}
		page, err = walk.Page(ctx, reader{tx, query.Words()}, query, db.settings.limits, kinds)
		return err
	})
	return page, err
}

// keepToIndexes tells the planner what it may not know, for as long as nobody has
// analyzed the table, as after a first sync: that to read the whole table never pays for
// a page, nor to sort all objects of a kind. Objects that are asked for by name, or its
// beginning, are looked up, and those few may be sorted.
func keepToIndexes(ctx context.Context, tx pgx.Tx, terms, named bool) error {
	onOff := map[bool]string{true: "on", false: "off"}
	_, err := tx.Exec(ctx, "SELECT set_config('enable_seqscan', $1, true), set_config('enable_sort', $2, true)", onOff[!terms], onOff[named])
	return err
}

// Object implements synchronizer.Reader.
func (db *DB) Object(ctx context.Context, key synchronizer.ObjectKey) (*synchronizer.Row, error) {
	if err := key.ClusterID.Validate(); err != nil {
		return nil, err
	}
	var found *synchronizer.Row
	err := db.reading(ctx, "reading "+key.String(), func(r pgx.Tx) error {
		kinds, err := of(synchronizer.ClusterKind{ClusterID: key.ClusterID, Kind: key.Kind}).kinds(ctx, r, nil)
		if err != nil || len(kinds) == 0 {
			return err
		}
		rows, err := r.Query(ctx, "SELECT "+rowColumns+", o.body::text, o.raw FROM objects o WHERE o.kind = $1 AND o.ns = $2 AND o.name = $3",
			int32(kinds[0].ID), toText(key.Namespace), toText(key.Name))
		if err != nil {
			return err
		}
		defer rows.Close()
		if rows.Next() {
			var json pgtype.Text
			var raw []byte
			row := &synchronizer.Row{Key: key}
			if err := scanRow(rows, row, nil, &json, &raw); err != nil {
				return err
			}
			row.Body = fromBody(json, raw)
			found = row
		}
		return rows.Err()
	})
	if err == nil && found == nil {
		err = fmt.Errorf("reading %s: %w", key, synchronizer.ErrNotFound)
	}
	return found, err
}

// Known implements synchronizer.Inventory. One row is in memory at a time.
func (db *DB) Known(ctx context.Context, kind synchronizer.ClusterKind, each func(*synchronizer.Row) error) error {
	if err := kind.ClusterID.Validate(); err != nil {
		return err
	}
	var stopped error // by each: returned as it is
	err := db.reading(ctx, "reading what is known of "+kind.Kind.String(), func(r pgx.Tx) error {
		kinds, err := of(kind).kinds(ctx, r, nil)
		if err != nil || len(kinds) == 0 {
			return err
		}
		rows, err := r.Query(ctx, "SELECT o.ns, o.name, o.rv, o.checksum FROM objects o WHERE o.kind = $1 AND o.deleted_at IS NULL ORDER BY o.kind, o.ns, o.name",
			int32(kinds[0].ID))
		if err != nil {
			return err
		}
		defer rows.Close()
		row := synchronizer.Row{Key: synchronizer.ObjectKey{ClusterID: kind.ClusterID, Kind: kind.Kind}}
		for rows.Next() {
			if err := rows.Scan(&row.Key.Namespace, &row.Key.Name, &row.ResourceVersion, &row.Checksum); err != nil {
				return err
			}
			row.Key.Namespace, row.Key.Name = fromText(row.Key.Namespace), fromText(row.Key.Name)
			row.ResourceVersion, row.Checksum = fromText(row.ResourceVersion), fromText(row.Checksum)
			if stopped = each(&row); stopped != nil {
				return errStopped
			}
		}
		return rows.Err()
	})
	if stopped != nil {
		return stopped
	}
	return err
}

var errStopped = errors.New("the caller has seen enough")
