// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/store/index"
)

// Stats implements synchronizer.Inspector.
func (db *DB) Stats(ctx context.Context) (s synchronizer.StoreStats, err error) {
	err = db.reading(ctx, "counting what is stored", func(r pgx.Tx) error {
		return r.QueryRow(ctx, `SELECT 'PostgreSQL ' || current_setting('server_version'),
			(SELECT coalesce(max(version_id), 0) FROM schema_versions WHERE is_applied),
			(SELECT sum(pg_total_relation_size(t))::bigint FROM unnest(ARRAY['accounts', 'clusters', 'sources', 'kinds', 'objects',
				'sets', 'changes', 'events', 'access_keys', 'api_tokens']::regclass[]) t),
			(SELECT count(*) FROM accounts), (SELECT count(*) FROM clusters WHERE deleted_at IS NULL), (SELECT count(*) FROM kinds),
			(SELECT count(*) FROM sources), count(*) FILTER (WHERE deleted_at IS NULL), count(deleted_at),
			(SELECT count(*) FROM events), (SELECT count(*) FROM changes),
			coalesce(sum(coalesce(octet_length(body::text), octet_length(raw), 0)), 0)::bigint FROM objects`).Scan(
			&s.Engine, &s.SchemaVersion, &s.Bytes, &s.Accounts, &s.Clusters, &s.Kinds, &s.Sources,
			&s.Objects, &s.Tombstones, &s.Events, &s.Changes, &s.BodyBytes)
	})
	return s, err
}

// Check implements synchronizer.Inspector. All of it sees one state.
func (db *DB) Check(ctx context.Context, each func(problem string)) error {
	return db.reading(ctx, "checking the database", func(tx pgx.Tx) error {
		r := reader{tx: tx}
		audit := index.NewAudit(each)
		for _, step := range []func(context.Context, *index.Audit) error{r.checkObjects, r.checkKinds, r.checkSets} {
			if err := step(ctx, audit); err != nil {
				return err
			}
		}
		return r.checkFeeds(ctx, each)
	})
}

func (r reader) checkObjects(ctx context.Context, audit *index.Audit) error {
	return r.query(ctx, `SELECT a.name, c.name, k.grp, k.version, k.resource, o.ns, o.name, o.kind, o.id, o.digest, o.h1, o.h2,
			o.labels::text, o.terms, o.body::text, o.raw, o.deleted_at IS NULL
		FROM objects o LEFT JOIN kinds k ON k.id = o.kind LEFT JOIN clusters c ON c.id = k.cluster LEFT JOIN accounts a ON a.id = c.account`,
		nil, func(rows pgx.Rows) (bool, error) {
			var names [5]pgtype.Text
			var s index.Stored
			var digest, raw []byte
			var h1, h2 int64
			var labels, json pgtype.Text
			var terms []int64
			var kind int32
			err := rows.Scan(&names[0], &names[1], &names[2], &names[3], &names[4], &s.Key.Namespace, &s.Key.Name, &kind, &s.ID, &digest, &h1, &h2,
				&labels, &terms, &json, &raw, &s.Live)
			if err != nil {
				return false, err
			}
			s.Key = synchronizer.ObjectKey{
				ClusterID: synchronizer.ClusterID{Account: fromText(names[0].String), Cluster: fromText(names[1].String)},
				Kind:      synchronizer.Kind{Group: fromText(names[2].String), Version: fromText(names[3].String), Resource: fromText(names[4].String)},
				Namespace: fromText(s.Key.Namespace), Name: fromText(s.Key.Name),
			}
			s.Kind, s.Hash, s.Labels, s.Body = int64(kind), wholeHash(h1, h2), index.Labels(labels.String), fromBody(json, raw)
			copy(s.Digest[:], digest)
			// Terms are hashes with the kind mixed in; what they should be is known.
			entry := index.Of(&s.Key, s.Body)
			if s.Words = terms; s.Live && slices.Equal(termsOf(kind, &entry), terms) {
				s.Words = entry.Words
			}
			audit.Object(&s)
			return true, nil
		})
}

func (r reader) checkKinds(ctx context.Context, audit *index.Audit) error {
	return r.query(ctx, "SELECT k.id, k.grp || '/' || k.version || '/' || k.resource, k.objects FROM kinds k", nil, func(rows pgx.Rows) (bool, error) {
		var kind int32
		var name string
		var objects int64
		err := rows.Scan(&kind, &name, &objects)
		audit.Kind(int64(kind), name, objects)
		return true, err
	})
}

func (r reader) checkSets(ctx context.Context, audit *index.Audit) error {
	stored := map[int64]map[string]checksum.Set{}
	err := r.query(ctx, "SELECT kind, ns, h1, h2, objects FROM sets", nil, func(rows pgx.Rows) (bool, error) {
		var kind int32
		var ns string
		var h1, h2 int64
		var set checksum.Set
		err := rows.Scan(&kind, &ns, &h1, &h2, &set.Count)
		set.Hash = wholeHash(h1, h2)
		if stored[int64(kind)] == nil {
			stored[int64(kind)] = map[string]checksum.Set{}
		}
		stored[int64(kind)][fromText(ns)] = set
		return true, err
	})
	if err == nil {
		audit.Sets(stored)
	}
	return err
}

func (r reader) checkFeeds(ctx context.Context, each func(problem string)) error {
	return r.query(ctx, `SELECT a.name, a.feed_floor, a.feed_position, coalesce(min(h.pos), a.feed_position), coalesce(max(h.pos), a.feed_position)
		FROM accounts a LEFT JOIN changes h ON h.account = a.id GROUP BY a.id ORDER BY a.name`, nil, func(rows pgx.Rows) (bool, error) {
		var account string
		var floor, position, first, last int64
		err := rows.Scan(&account, &floor, &position, &first, &last)
		if err == nil && (first < floor || last > position) {
			each(fmt.Sprintf("the change feed of account %s is said to reach from %d to %d, and its entries from %d to %d", fromText(account), floor, position, first, last))
		}
		return true, err
	})
}
