// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"synchronizer"
	"synchronizer/internal/store/walk"
)

// scope says which clusters and kinds a reader may see and wants to see. It is
// the only place where an account is compared: all that is read of objects,
// changes and events is read by the numbers that it lets through.
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

// where collects conditions that all have to hold.
type where struct {
	text strings.Builder
	args []any
}

// add appends a condition; each %s in it stands for one of the arguments.
func (w *where) add(condition string, args ...any) {
	marks := make([]any, len(args))
	for i, arg := range args {
		w.args = append(w.args, arg)
		marks[i] = fmt.Sprintf("$%d", len(w.args))
	}
	fmt.Fprintf(&w.text, " AND "+condition, marks...)
}

func (w *where) in(column string, values []string) {
	if len(values) > 0 {
		w.add(column+" = ANY(%s)", toTexts(values))
	}
}

// conditions is SQL over accounts a, clusters c and, with kinds, over kinds k.
func (s scope) conditions(kinds bool) *where {
	var w where
	w.add("c.deleted_at IS NULL")
	if s.account != "" {
		w.add("a.name = %s", toText(s.account))
	}
	w.in("c.name", s.clusters)
	if kinds {
		w.in("k.grp", s.groups)
		w.in("k.version", s.versions)
		w.in("k.resource", s.resources)
	}
	return &w
}

// kinds gives KindsPerPage kinds at most, in order, from the position on.
func (s scope) kinds(ctx context.Context, r pgx.Tx, from *walk.Position) ([]walk.Kind, error) {
	w := s.conditions(true)
	if from != nil {
		operator := ">="
		if from.KindDone {
			operator = ">"
		}
		w.add("(a.name, c.name) >= (%s, %s)", toText(from.Account), toText(from.Cluster))
		w.add("(a.name, c.name, k.grp, k.version, k.resource) "+operator+" (%s, %s, %s, %s, %s)", toText(from.Account), toText(from.Cluster),
			toText(from.Group), toText(from.Version), toText(from.Resource))
	}
	rows, err := r.Query(ctx, fmt.Sprintf(`SELECT k.id, a.name, c.name, k.grp, k.version, k.resource
		FROM accounts a JOIN clusters c ON c.account = a.id JOIN kinds k ON k.cluster = c.id WHERE true%s
		ORDER BY a.name, c.name, k.grp, k.version, k.resource LIMIT %d`, w.text.String(), walk.KindsPerPage), w.args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (k walk.Kind, err error) {
		err = row.Scan(&k.ID, &k.Account, &k.Cluster, &k.Kind.Group, &k.Kind.Version, &k.Kind.Resource)
		for _, text := range []*string{&k.Account, &k.Cluster, &k.Kind.Group, &k.Kind.Version, &k.Kind.Resource} {
			*text = fromText(*text)
		}
		return k, err
	})
}

// number gives the number of the account; false if it is not known.
func (s scope) number(ctx context.Context, r pgx.Tx) (int32, bool, error) {
	rows, err := r.Query(ctx, "SELECT id FROM accounts WHERE name = $1", toText(s.account))
	if err != nil {
		return 0, false, err
	}
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil || len(numbers) == 0 {
		return 0, false, err
	}
	return numbers[0], true, nil
}
