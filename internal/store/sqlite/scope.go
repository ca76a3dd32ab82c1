// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"synchronizer"
	"synchronizer/internal/store/walk"
)

// scope says which clusters and kinds a reader may see and wants to see. It is
// the only place where an account is compared: all that is read of objects is
// read by the numbers of the kinds that it lets through.
type scope struct {
	account string // empty: all
	// A list means any of its members; empty lists do not restrict.
	clusters, groups, versions, resources []string
}

// of is the scope of one kind of one cluster.
func of(kind synchronizer.ClusterKind) scope {
	return scope{
		account: kind.Account, clusters: []string{kind.Cluster}, groups: []string{kind.Kind.Group},
		versions: []string{kind.Kind.Version}, resources: []string{kind.Kind.Resource},
	}
}

// conditions is SQL over clusters c and, with kinds, over kinds k.
func (s scope) conditions(kinds bool) (string, []any) {
	var w where
	w.add("c.deleted_at = 0")
	if s.account != "" {
		w.add("c.account = ?", s.account)
	}
	w.in("c.name", s.clusters)
	if kinds {
		w.in("k.grp", s.groups)
		w.in("k.version", s.versions)
		w.in("k.resource", s.resources)
	}
	return w.text.String(), w.args
}

// where collects conditions that all have to hold.
type where struct {
	text strings.Builder
	args []any
}

func (w *where) add(condition string, args ...any) {
	w.text.WriteString(" AND " + condition)
	w.args = append(w.args, args...)
}

func (w *where) in(column string, values []string) {
	if len(values) == 0 {
		return
	}
	w.text.WriteString(" AND " + column + " IN (?" + strings.Repeat(",?", len(values)-1) + ")")
	for _, value := range values {
		w.args = append(w.args, value)
	}
}

// kinds gives KindsPerPage kinds at most, in order, from the position on.
func (s scope) kinds(ctx context.Context, r *sql.Tx, from *walk.Position) ([]walk.Kind, error) {
	text, args := s.kindsQuery(from)
	rows, err := r.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, fmt.Errorf("reading kinds: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var kinds []walk.Kind
	for rows.Next() {
		var k walk.Kind
		if err := rows.Scan(&k.ID, &k.Account, &k.Cluster, &k.Kind.Group, &k.Kind.Version, &k.Kind.Resource); err != nil {
			return nil, fmt.Errorf("reading kinds: %w", err)
		}
		kinds = append(kinds, k)
	}
	return kinds, rows.Err()
}

func (s scope) kindsQuery(from *walk.Position) (string, []any) {
	conditions, args := s.conditions(true)
	if from != nil {
		conditions += " AND (c.account, c.name) >= (?, ?)"
		args = append(args, from.Account, from.Cluster)
		operator := ">="
		if from.KindDone {
			operator = ">"
		}
		conditions += " AND (c.account, c.name, k.grp, k.version, k.resource) " + operator + " (?, ?, ?, ?, ?)"
		args = append(args, from.Account, from.Cluster, from.Group, from.Version, from.Resource)
	}
	return fmt.Sprintf(`SELECT k.id, c.account, c.name, k.grp, k.version, k.resource
		FROM clusters c CROSS JOIN kinds k ON k.cluster = c.id WHERE true%s
		ORDER BY c.account, c.name, k.grp, k.version, k.resource LIMIT %d`, conditions, walk.KindsPerPage), args
}

// reading runs fn in one read transaction, which sees one state of the database.
func (db *DB) reading(ctx context.Context, fn func(*sql.Tx) error) error {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.closed {
		return fmt.Errorf("%w: the database %s", synchronizer.ErrClosed, db.path)
	}
	r, err := db.read.BeginTx(ctx, nil)
	if err != nil {
		return db.failure("beginning to read", contextError(ctx, err))
	}
	defer func() { _ = r.Rollback() }()
	return fn(r)
}

// number gives the number of the account; false if it is not known.
func (s scope) number(ctx context.Context, r *sql.Tx) (number int64, known bool, err error) {
	err = r.QueryRowContext(ctx, "SELECT id FROM accounts WHERE name = ?", s.account).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return number, err == nil, err
}
