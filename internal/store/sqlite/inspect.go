// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"synchronizer"
	"synchronizer/internal/store/index"
)

// Stats implements synchronizer.Inspector.
func (db *DB) Stats(ctx context.Context) (s synchronizer.StoreStats, err error) {
	err = db.reading(ctx, func(r *sql.Tx) error {
		return r.QueryRowContext(ctx, `SELECT 'SQLite ' || sqlite_version(), (SELECT max(version_id) FROM goose_db_version WHERE is_applied),
			(SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()),
			(SELECT count(*) FROM accounts), (SELECT count(*) FROM clusters WHERE deleted_at = 0), (SELECT count(*) FROM kinds),
			(SELECT count(*) FROM sources), count(*) FILTER (WHERE deleted_at = 0), count(*) FILTER (WHERE deleted_at > 0),
			(SELECT count(*) FROM events), (SELECT count(*) FROM changes), coalesce(sum(octet_length(body)), 0) FROM objects`).Scan(
			&s.Engine, &s.SchemaVersion, &s.Bytes, &s.Accounts, &s.Clusters, &s.Kinds, &s.Sources,
			&s.Objects, &s.Tombstones, &s.Events, &s.Changes, &s.BodyBytes)
	})
	if err != nil {
		return s, db.failure("counting what is stored", contextError(ctx, err))
	}
	return s, nil
}

// Check implements synchronizer.Inspector. All of it sees one state. The file itself
// is checked too.
func (db *DB) Check(ctx context.Context, each func(problem string)) error {
	err := db.reading(ctx, func(tx *sql.Tx) error {
		r := newReader(tx, nil)
		defer r.close()
		audit := index.NewAudit(each)
		for _, step := range []func(context.Context, *index.Audit) error{r.checkObjects, r.checkTerms, r.checkKinds} {
			if err := step(ctx, audit); err != nil {
				return err
			}
		}
		if err := r.checkFeeds(ctx, each); err != nil {
			return err
		}
		return r.query(ctx, "PRAGMA integrity_check", nil, func(rows *sql.Rows) (bool, error) {
			var result string
			err := rows.Scan(&result)
			if result != "ok" {
				each("the file is damaged: " + result)
			}
			return true, err
		})
	})
	if err != nil {
		return db.failure("checking the database", contextError(ctx, err))
	}
	return nil
}

func (r *reader) checkObjects(ctx context.Context, audit *index.Audit) error {
	return r.query(ctx, `SELECT c.account, c.name, k.grp, k.version, k.resource, o.ns, o.name, o.kind, o.id, o.digest, o.h1, o.h2,
			o.labels, o.words, o.body, o.deleted_at = 0
		FROM objects o LEFT JOIN kinds k ON k.id = o.kind LEFT JOIN clusters c ON c.id = k.cluster`,
		nil, func(rows *sql.Rows) (bool, error) {
			var names [5]sql.NullString
			var s index.Stored
			var digest []byte
			var words sql.NullInt64
			var h1, h2 int64
			var labels sql.NullString
			err := rows.Scan(&names[0], &names[1], &names[2], &names[3], &names[4], &s.Key.Namespace, &s.Key.Name, &s.Kind, &s.ID, &digest, &h1, &h2,
				&labels, &words, &s.Body, &s.Live)
			s.Key.ClusterID = synchronizer.ClusterID{Account: names[0].String, Cluster: names[1].String}
			s.Key.Kind = synchronizer.Kind{Group: names[2].String, Version: names[3].String, Resource: names[4].String}
			s.Hash, s.Labels = wholeHash(h1, h2), index.Labels(labels.String)
			if entry := index.Of(&s.Key, s.Body); words.Valid && words.Int64 == entry.Words.Sum() {
				s.Words = entry.Words
			} else if words.Valid {
				s.Words = index.Words{words.Int64}
			}
			copy(s.Digest[:], digest)
			if err == nil {
				audit.Object(&s)
			}
			return true, err
		})
}

func (r *reader) checkTerms(ctx context.Context, audit *index.Audit) error {
	for table, column := range map[string]string{"labels": "label", "words": "word"} {
		err := audit.Rows(table == "words", func(row func(kind, term, obj int64)) error {
			return r.query(ctx, "SELECT kind, "+column+", obj FROM "+table, nil, func(rows *sql.Rows) (bool, error) {
				var kind, term, obj int64
				err := rows.Scan(&kind, &term, &obj)
				row(kind, term, obj)
				return true, err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) checkKinds(ctx context.Context, audit *index.Audit) error {
	return r.query(ctx, "SELECT id, grp || '/' || version || '/' || resource, objects FROM kinds", nil, func(rows *sql.Rows) (bool, error) {
		var kind, objects int64
		var name string
		err := rows.Scan(&kind, &name, &objects)
		audit.Kind(kind, name, objects)
		return true, err
	})
}

func (r *reader) checkFeeds(ctx context.Context, each func(problem string)) error {
	return r.query(ctx, `SELECT a.name, a.feed_floor, a.feed_position, coalesce(min(h.pos), a.feed_position), coalesce(max(h.pos), a.feed_position)
		FROM accounts a LEFT JOIN changes h ON h.account = a.id GROUP BY a.id ORDER BY a.name`, nil, func(rows *sql.Rows) (bool, error) {
		var account string
		var floor, position, first, last int64
		err := rows.Scan(&account, &floor, &position, &first, &last)
		if err == nil && (first < floor || last > position) {
			each(fmt.Sprintf("the change feed of account %s is said to reach from %d to %d, and its entries from %d to %d", account, floor, position, first, last))
		}
		return true, err
	})
}
