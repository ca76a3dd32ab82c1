// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"synchronizer/internal/store/index"
	"synchronizer/internal/store/walk"
)

// reader is the index that a walk goes along, in one read transaction.
type reader struct {
	tx    pgx.Tx
	words index.Words // that the query asks for
}

var _ walk.Index = reader{}

// The size of a body is that of its stored form, which is near enough for a limit
// and costs nothing.
const walkColumns = "o.id, o.ns, o.name, o.labels::text, coalesce(pg_column_size(o.body), length(o.raw), 0), " + rowColumns

func (r reader) columns() string {
	if len(r.words) > 0 {
		return walkColumns + ", o.terms"
	}
	return walkColumns
}

// found reads a row of walkColumns.
func (r reader) found(rows pgx.Rows, kind walk.Kind, row *walk.Found) error {
	var labels pgtype.Text
	var terms []int64
	var after []any
	if len(r.words) > 0 {
		after = append(after, &terms)
	}
	key := &row.Row.Key
	key.ClusterID, key.Kind = kind.ClusterID, kind.Kind
	err := scanRow(rows, &row.Row, []any{&row.ID, &key.Namespace, &key.Name, &labels, &row.Size}, after...)
	key.Namespace, key.Name = fromText(key.Namespace), fromText(key.Name)
	row.Labels = index.Labels(labels.String)
	for _, word := range r.words {
		if slices.Contains(terms, term(int32(kind.ID), wordSalt, word)) {
			row.Words = append(row.Words, word)
		}
	}
	return err
}

func (r reader) query(ctx context.Context, text string, args []any, scan func(pgx.Rows) (more bool, err error)) error {
	rows, err := r.tx.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if more, err := scan(rows); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// portion is how many rows a scan asks for at first, if not for all, and then four
// times as many: of a query that ends early, the server would send all the same.
const portion = 500

// Scan implements walk.Ranges.
func (r reader) Scan(ctx context.Context, kind walk.Kind, of walk.Range, limit int, each func(*walk.Found) bool) error {
	for ask := portion; limit > 0; ask *= 4 {
		ask = min(ask, limit)
		var last walk.Place
		got, more := 0, true
		text, args := r.scanQuery(kind, of, ask)
		err := r.query(ctx, text, args, func(rows pgx.Rows) (bool, error) {
			var f walk.Found
			if err := r.found(rows, kind, &f); err != nil {
				return false, err
			}
			got++
			last = walk.Place{Namespace: f.Row.Key.Namespace, Name: f.Row.Key.Name}
			more = each(&f)
			return more, nil
		})
		if err != nil || !more || got < ask {
			return err
		}
		limit -= got
		if of.InNamespace {
			if of.Names.In != nil {
				return nil // there are no more than were asked for by name
			}
			of.Names.From = last.Name + "\x00" // the least text behind it
		} else {
			of.Behind = &last
		}
	}
	return nil
}

func (r reader) scanQuery(kind walk.Kind, of walk.Range, limit int) (string, []any) {
	var w where
	w.add("o.kind = %s", int32(kind.ID))
	switch {
	case of.InNamespace:
		w.add("o.ns = %s", toText(of.Namespace))
		w.names(of.Names)
		if n := len(of.Names.In); n > 0 {
			limit = n
		}
	case of.Behind != nil:
		w.add("(o.ns, o.name) > (%s, %s)", toText(of.Behind.Namespace), toText(of.Behind.Name))
	}
	return fmt.Sprintf("SELECT %s FROM objects o WHERE true%s ORDER BY o.kind, o.ns, o.name LIMIT %d", r.columns(), w.text.String(), limit), w.args
}

// names adds the condition on the name.
func (w *where) names(names walk.Names) {
	switch {
	case len(names.In) > 0:
		w.add("o.name = ANY(%s)", toTexts(names.In))
	case names.End != "":
		w.add("o.name >= %s AND o.name < %s", toText(names.From), toText(names.End))
	case names.From != "":
		w.add("o.name >= %s", toText(names.From))
	}
}

// Spaces implements walk.Ranges.
func (r reader) Spaces(ctx context.Context, kind walk.Kind, from string, names walk.Names, limit int) ([]walk.Space, error) {
	w := where{args: []any{int32(kind.ID), toText(from), limit}}
	w.names(names)
	var spaces []walk.Space
	err := r.query(ctx, `WITH RECURSIVE n (ns, i) AS (
		(SELECT ns, 1 FROM objects WHERE kind = $1 AND ns >= $2 ORDER BY ns LIMIT 1)
		UNION ALL SELECT (SELECT o.ns FROM objects o WHERE o.kind = $1 AND o.ns > n.ns ORDER BY o.ns LIMIT 1), n.i + 1 FROM n WHERE n.ns IS NOT NULL AND n.i < $3)
		SELECT n.ns, EXISTS (SELECT 1 FROM objects o WHERE o.kind = $1 AND o.ns = n.ns`+w.text.String()+`) FROM n WHERE n.ns IS NOT NULL`,
		w.args, func(rows pgx.Rows) (bool, error) {
			var s walk.Space
			err := rows.Scan(&s.Namespace, &s.Has)
			s.Namespace = fromText(s.Namespace)
			spaces = append(spaces, s)
			return true, err
		})
	return spaces, err
}

// LastName implements walk.Ranges.
func (r reader) LastName(ctx context.Context, kind walk.Kind, namespace string) (string, error) {
	var name pgtype.Text
	err := r.tx.QueryRow(ctx, "SELECT max(name) FROM objects WHERE kind = $1 AND ns = $2", int32(kind.ID), toText(namespace)).Scan(&name)
	return fromText(name.String), err
}

// Having implements walk.Postings.
func (r reader) Having(ctx context.Context, kinds []walk.Kind, terms []walk.Term) (map[int64]bool, error) {
	numbers := make([]int32, len(kinds))
	columns := make([][]pgtype.Text, len(termSets(kinds[0], terms)))
	for i, kind := range kinds {
		numbers[i] = int32(kind.ID)
		for k, set := range termSets(kind, terms) {
			columns[k] = append(columns[k], arrayText(set.hashes))
		}
	}
	args := []any{numbers}
	var names, lists, conditions strings.Builder
	for k, set := range termSets(kinds[0], terms) {
		args = append(args, columns[k])
		fmt.Fprintf(&names, ", t%d", k)
		fmt.Fprintf(&lists, ", $%d::text[]", len(args))
		fmt.Fprintf(&conditions, "o.terms %s w.t%d::bigint[] AND ", set.operator, k)
	}
	have := map[int64]bool{}
	err := r.query(ctx, "SELECT w.kind FROM unnest($1::int[]"+lists.String()+") w (kind"+names.String()+`), LATERAL
		(SELECT 1 FROM objects o WHERE `+conditions.String()+"o.kind + 0 = w.kind LIMIT 1) o", args, func(rows pgx.Rows) (bool, error) {
		var kind int32
		err := rows.Scan(&kind)
		have[int64(kind)] = true
		return true, err
	})
	return have, err
}

// Few implements walk.Postings.
func (r reader) Few(ctx context.Context, kind walk.Kind, terms []walk.Term, most int, each func(*walk.Found)) (bool, error) {
	// The sum keeps the index of keys out: of that the planner thinks too well.
	w := where{args: []any{int32(kind.ID), most + 1}}
	for _, set := range termSets(kind, terms) {
		w.add("o.terms "+set.operator+" %s::bigint[]", set.hashes)
	}
	n := 0
	err := r.query(ctx, "SELECT "+r.columns()+" FROM objects o WHERE o.kind + 0 = $1"+w.text.String()+" LIMIT $2", w.args, func(rows pgx.Rows) (bool, error) {
		f := &walk.Found{}
		if err := r.found(rows, kind, f); err != nil {
			return false, err
		}
		each(f)
		n++
		return true, nil
	})
	return n <= most, err
}

// termSet is a condition on the column of terms.
type termSet struct {
	operator string
	hashes   []int64
}

// termSets are the conditions for all of the terms of a query, as many for each
// kind. Those with one value are one set: of that the index reads the shortest list,
// and the others only where it has something.
func termSets(kind walk.Kind, terms []walk.Term) []termSet {
	var all termSet
	var sets []termSet
	for _, t := range terms {
		hashes := make([]int64, len(t.Hashes))
		salt := uint64(labelSalt)
		if t.Word {
			salt = wordSalt
		}
		for i, hash := range t.Hashes {
			hashes[i] = term(int32(kind.ID), salt, hash)
		}
		if len(hashes) == 1 {
			all.operator, all.hashes = "@>", append(all.hashes, hashes...)
		} else {
			sets = append(sets, termSet{"&&", hashes})
		}
	}
	if len(all.hashes) > 0 {
		sets = append(sets, all)
	}
	return sets
}

// Bodies implements walk.Index.
func (r reader) Bodies(ctx context.Context, ids []int64, each func(id int64, body []byte)) error {
	return r.bodies(ctx, "objects", ids, each)
}

func (r reader) bodies(ctx context.Context, table string, ids []int64, each func(id int64, body []byte)) error {
	return r.query(ctx, "SELECT id, body::text, raw FROM "+table+" WHERE id = ANY($1)", []any{ids}, func(rows pgx.Rows) (bool, error) {
		var id int64
		var json pgtype.Text
		var raw []byte
		if err := rows.Scan(&id, &json, &raw); err != nil {
			return false, err
		}
		each(id, fromBody(json, raw))
		return true, nil
	})
}
