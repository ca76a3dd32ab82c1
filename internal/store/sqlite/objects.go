// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"synchronizer"
)

const (
	defaultLimit = 100
	maxLimit     = 10_000
	maxTerms     = 10_000
	// bodiesPerQuery is how many bodies are read with one query.
	bodiesPerQuery = 100
)

// Objects implements synchronizer.Reader. A page can be shorter than the limit,
// even empty, and still have a token to continue with: after scanLimit rows that
// did not match, and after pageBytes of bodies.
func (db *DB) Objects(ctx context.Context, q synchronizer.ObjectQuery) (synchronizer.ObjectPage, error) {
	limit := q.Limit
	switch {
	case limit == 0:
		limit = defaultLimit
	case limit < 0 || limit > maxLimit:
		return synchronizer.ObjectPage{}, fmt.Errorf("%w: limit %d is not between 1 and %d", synchronizer.ErrInvalid, limit, maxLimit)
	}
	terms := len(q.Clusters) + len(q.Groups) + len(q.Versions) + len(q.Resources) + len(q.Namespaces) + len(q.Names)
	for i := range q.Labels {
		terms += 1 + len(q.Labels[i].Values)
	}
	if terms > maxTerms {
		return synchronizer.ObjectPage{}, fmt.Errorf("%w: a query of %d terms; %d is the most", synchronizer.ErrInvalid, terms, maxTerms)
	}
	f, err := newFilter(&q)
	if err != nil {
		return synchronizer.ObjectPage{}, err
	}
	from, err := parsePosition(q.Continue)
	if err != nil {
		return synchronizer.ObjectPage{}, err
	}
	s := scope{
		account: q.Account, clusters: q.Clusters,
		groups: namesOf(q.Groups, "core"), versions: q.Versions, resources: q.Resources,
	}

	var page synchronizer.ObjectPage
	err = db.reading(ctx, func(r *sql.Tx) error {
		kinds, err := s.kinds(ctx, r, from)
		if err != nil {
			return err
		}
		w := newWalk(r, &f, limit, db.scanLimit)
		defer w.close()
		if err := w.kinds(ctx, kinds, from); err != nil {
			return err
		}
		if w.end == nil && len(kinds) == kindsPerPage {
			w.endBehind(kinds[len(kinds)-1])
		}
		if q.Full {
			if err := w.readBodies(ctx, db.pageBytes); err != nil {
				return err
			}
		}
		page.Rows = w.rows
		if w.end != nil {
			page.Continue = w.end.token()
		}
		return nil
	})
	if err != nil {
		return synchronizer.ObjectPage{}, db.failure("reading objects", contextError(ctx, err))
	}
	return page, nil
}

// readBodies fills the bodies, and ends the page early if they are too large.
func (w *walk) readBodies(ctx context.Context, pageBytes int64) error {
	var total int64
	for i, size := range w.sizes {
		if total += size; total > pageBytes && i > 0 {
			w.cut(i)
			break
		}
	}
	for start := 0; start < len(w.rows); start += bodiesPerQuery {
		end := min(start+bodiesPerQuery, len(w.rows))
		places := make(map[int64]int, end-start)
		args := make([]any, 0, end-start)
		for i := start; i < end; i++ {
			places[w.numbers[i]] = i
			args = append(args, w.numbers[i])
		}
		text := "SELECT id, body FROM objects WHERE id IN (?" + strings.Repeat(",?", len(args)-1) + ")"
		err := w.query(ctx, text, args, func(rows *sql.Rows) (bool, error) {
			var id int64
			var body []byte
			if err := rows.Scan(&id, &body); err != nil {
				return false, err
			}
			w.rows[places[id]].Body = body
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Object implements synchronizer.Reader.
func (db *DB) Object(ctx context.Context, key synchronizer.ObjectKey) (*synchronizer.Row, error) {
	if err := key.ClusterID.Validate(); err != nil {
		return nil, err
	}
	s := scope{
		account: key.Account, clusters: []string{key.Cluster}, groups: []string{key.Kind.Group},
		versions: []string{key.Kind.Version}, resources: []string{key.Kind.Resource},
	}
	row := &synchronizer.Row{Key: key}
	err := db.reading(ctx, func(r *sql.Tx) error {
		kinds, err := s.kinds(ctx, r, nil)
		if err != nil {
			return err
		}
		if len(kinds) == 0 {
			return sql.ErrNoRows
		}
		rows, err := r.QueryContext(ctx, "SELECT "+rowColumns+", o.body FROM objects o WHERE o.kind = ? AND o.ns = ? AND o.name = ?",
			kinds[0].id, key.Namespace, key.Name)
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
