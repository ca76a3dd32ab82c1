// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"synchronizer"
)

// scope says which clusters and kinds a reader may see and wants to see. It is
// the only place where an account is compared: all that is read of objects is
// read by the numbers of the kinds that it lets through.
type scope struct {
	account string // empty: all
	// A list means any of its members; empty lists do not restrict.
	clusters, groups, versions, resources []string
}

// conditions is SQL over clusters c and, with kinds, over kinds k.
func (s scope) conditions(kinds bool) (string, []any) {
	var w where
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

// scopedKind is a kind that the scope lets through.
type scopedKind struct {
	id int64
	clusterKind
}

// kindsPerPage bounds how many kinds one page of objects looks into.
const kindsPerPage = 2000

// kinds gives kindsPerPage kinds at most, in order, from the position on.
func (s scope) kinds(ctx context.Context, r *sql.Tx, from *position) ([]scopedKind, error) {
	text, args := s.kindsQuery(from)
	rows, err := r.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, fmt.Errorf("reading kinds: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var kinds []scopedKind
	for rows.Next() {
		var k scopedKind
		if err := rows.Scan(&k.id, &k.Account, &k.Cluster, &k.Group, &k.Version, &k.Resource); err != nil {
			return nil, fmt.Errorf("reading kinds: %w", err)
		}
		kinds = append(kinds, k)
	}
	return kinds, rows.Err()
}

func (s scope) kindsQuery(from *position) (string, []any) {
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
		ORDER BY c.account, c.name, k.grp, k.version, k.resource LIMIT %d`, conditions, kindsPerPage), args
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

// Clusters implements synchronizer.Reader. It reads a row per cluster and kind,
// not the objects.
func (db *DB) Clusters(ctx context.Context, id synchronizer.ClusterID) ([]synchronizer.ClusterStatus, error) {
	s := scope{account: id.Account}
	if id.Cluster != "" {
		s.clusters = []string{id.Cluster}
	}
	var result []synchronizer.ClusterStatus
	err := db.reading(ctx, func(r *sql.Tx) error {
		numbers, clusters, err := readClusters(ctx, r, s)
		if err != nil {
			return db.failure("reading clusters", contextError(ctx, err))
		}
		if err := readKindStatus(ctx, r, s, numbers, clusters); err != nil {
			return db.failure("reading clusters", contextError(ctx, err))
		}
		result = clusters
		return nil
	})
	return result, err
}

func readClusters(ctx context.Context, r *sql.Tx, s scope) (map[int64]int, []synchronizer.ClusterStatus, error) {
	conditions, args := s.conditions(false)
	rows, err := r.QueryContext(ctx, `SELECT c.id, c.account, c.name, c.connected_at, c.first_seen, c.last_seen, c.`+
		strings.Join(clientColumns, ", c.")+" FROM clusters c WHERE true"+conditions+" ORDER BY c.account, c.name", args...)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	places := map[int64]int{}
	var clusters []synchronizer.ClusterStatus
	for rows.Next() {
		var c synchronizer.ClusterStatus
		var number, connected, first, last int64
		hello := &c.Client.Hello
		if err := rows.Scan(&number, &c.Account, &c.Cluster, &connected, &first, &last,
			&c.Client.ConnectionID, &hello.SynchronizerVersion, &hello.HelmVersion, &hello.GitVersion,
			&hello.CloudProvider, &hello.ClusterUID, &hello.ResourceGroup); err != nil {
			return nil, nil, err
		}
		hello.ClusterID = c.ClusterID
		c.Client.ConnectionTime = fromMicros(connected)
		c.FirstSeen, c.LastSeen = fromMicros(first), fromMicros(last)
		places[number] = len(clusters)
		clusters = append(clusters, c)
	}
	return places, clusters, rows.Err()
}

func readKindStatus(ctx context.Context, r *sql.Tx, s scope, places map[int64]int, clusters []synchronizer.ClusterStatus) error {
	conditions, args := s.conditions(false)
	rows, err := r.QueryContext(ctx, `SELECT k.cluster, k.grp, k.version, k.resource, k.objects, k.last_change
		FROM clusters c CROSS JOIN kinds k ON k.cluster = c.id WHERE true`+conditions+
		" ORDER BY k.cluster, k.grp, k.version, k.resource", args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var k synchronizer.KindStatus
		var number, changed int64
		if err := rows.Scan(&number, &k.Kind.Group, &k.Kind.Version, &k.Kind.Resource, &k.Objects, &changed); err != nil {
			return err
		}
		k.LastChange = fromMicros(changed)
		c := &clusters[places[number]]
		c.Kinds = append(c.Kinds, k)
	}
	return rows.Err()
}

// namesOf replaces the word that stands for the empty text, sorted, each once.
func namesOf(values []string, empty string) []string {
	values = slices.Clone(values)
	for i := range values {
		if values[i] == empty {
			values[i] = ""
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}
