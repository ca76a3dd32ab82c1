// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"synchronizer/internal/store/index"
	"synchronizer/internal/store/walk"
)

const walkColumns = "o.id, o.ns, o.name, o.labels, octet_length(o.body), " + rowColumns

// The statements of a walk; each follows an index.
const (
	walkKind      = " FROM objects o WHERE o.kind = ? AND (o.ns, o.name) > (?, ?) ORDER BY o.ns, o.name LIMIT ?"
	walkKindStart = " FROM objects o WHERE o.kind = ? ORDER BY o.ns, o.name LIMIT ?"
	walkNamespace = " FROM objects o WHERE o.kind = ? AND o.ns = ? AND o.name >= ?%s ORDER BY o.name LIMIT ?"
	walkNames     = " FROM objects o WHERE o.kind = ? AND o.ns = ? AND o.name IN (?%s) ORDER BY o.name LIMIT ?"
	countTerm     = "SELECT count(*) FROM (SELECT 1 FROM %s WHERE %s IN (?%s) AND kind = ? LIMIT ?)"
	havingTerm    = "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM %s t WHERE t.%s IN (?%s) AND t.kind = value)"
	walkTerm      = " FROM %s t CROSS JOIN objects o ON o.id = t.obj WHERE t.%s IN (?%s) AND t.kind = ?"
)

// walkNamespaces steps from namespace to namespace along the index, without
// reading what is in them, and tells which have a name that is asked for.
const walkNamespaces = `WITH RECURSIVE n(ns) AS (
	SELECT (SELECT min(ns) FROM objects WHERE kind = ?1 AND ns >= ?2)
	UNION ALL SELECT (SELECT min(ns) FROM objects WHERE kind = ?1 AND ns > n.ns) FROM n WHERE n.ns IS NOT NULL LIMIT ?3)
	SELECT n.ns, EXISTS (SELECT 1 FROM objects o WHERE o.kind = ?1 AND o.ns = n.ns%s) FROM n WHERE n.ns IS NOT NULL`

// reader is the index that a walk goes along, in one read transaction.
type reader struct {
	tx         *sql.Tx
	words      index.Words // that the query asks for
	statements map[string]*sql.Stmt
}

var _ walk.Index = (*reader)(nil)

func newReader(tx *sql.Tx, words index.Words) *reader {
	return &reader{tx: tx, words: words, statements: map[string]*sql.Stmt{}}
}

func (r *reader) close() {
	for _, statement := range r.statements {
		_ = statement.Close()
	}
}

// query calls scan for each row until it returns false.
func (r *reader) query(ctx context.Context, text string, args []any, scan func(*sql.Rows) (bool, error)) error {
	statement := r.statements[text]
	if statement == nil {
		var err error
		if statement, err = r.tx.PrepareContext(ctx, text); err != nil {
			return err
		}
		r.statements[text] = statement
	}
	rows, err := statement.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	for more := true; more && err == nil && rows.Next(); {
		more, err = scan(rows)
	}
	return errors.Join(err, rows.Err(), rows.Close())
}

// selectRows is the beginning of a statement that gives rows, and its parameters:
// each word is looked up by itself.
func (r *reader) selectRows() (string, []any) {
	args := make([]any, len(r.words))
	for i, word := range r.words {
		args[i] = word
	}
	const has = ", EXISTS (SELECT 1 FROM words w WHERE w.word = ? AND w.kind = o.kind AND w.obj = o.id)"
	return "SELECT " + walkColumns + strings.Repeat(has, len(r.words)), args
}

func (r *reader) found(rows *sql.Rows, kind walk.Kind, f *walk.Found) error {
	var labels sql.NullString
	var size sql.NullInt64
	has := make([]bool, len(r.words))
	after := make([]any, len(r.words))
	for i := range has {
		after[i] = &has[i]
	}
	key := &f.Row.Key
	key.ClusterID, key.Kind = kind.ClusterID, kind.Kind
	err := scanColumns(rows, &f.Row, []any{&f.ID, &key.Namespace, &key.Name, &labels, &size}, after)
	f.Labels, f.Size = index.Labels(labels.String), size.Int64
	for i, word := range r.words {
		if has[i] {
			f.Words = append(f.Words, word)
		}
	}
	return err
}

// Scan implements walk.Ranges.
func (r *reader) Scan(ctx context.Context, kind walk.Kind, of walk.Range, limit int, each func(*walk.Found) bool) error {
	var text string
	rows, args := r.selectRows()
	args = append(args, kind.ID)
	switch names := of.Names; {
	case of.InNamespace && len(names.In) > 0:
		text, args = fmt.Sprintf(walkNames, more(len(names.In))), append(args, of.Namespace)
		for _, name := range names.In {
			args = append(args, name)
		}
	case of.InNamespace && names.End != "":
		text, args = fmt.Sprintf(walkNamespace, " AND o.name < ?"), append(args, of.Namespace, names.From, names.End)
	case of.InNamespace:
		text, args = fmt.Sprintf(walkNamespace, ""), append(args, of.Namespace, names.From)
	case of.Behind != nil:
		text, args = walkKind, append(args, of.Behind.Namespace, of.Behind.Name)
	default:
		text = walkKindStart
	}
	return r.query(ctx, rows+text, append(args, limit), func(rows *sql.Rows) (bool, error) {
		f := walk.Found{}
		if err := r.found(rows, kind, &f); err != nil {
			return false, err
		}
		return each(&f), nil
	})
}

// more is the marks of a list behind its first one.
func more(n int) string { return strings.Repeat(",?", n-1) }

// nameCondition is a set of names in SQL, for the parameters from ?4 on.
func nameCondition(names walk.Names) (string, []any) {
	switch {
	case len(names.In) > 0:
		args := make([]any, len(names.In))
		marks := make([]string, len(names.In))
		for i, name := range names.In {
			args[i], marks[i] = name, fmt.Sprintf("?%d", 4+i)
		}
		return " AND o.name IN (" + strings.Join(marks, ", ") + ")", args
	case names.End != "":
		return " AND o.name >= ?4 AND o.name < ?5", []any{names.From, names.End}
	default:
		return " AND o.name >= ?4", []any{names.From}
	}
}

// Spaces implements walk.Ranges.
func (r *reader) Spaces(ctx context.Context, kind walk.Kind, from string, names walk.Names, limit int) ([]walk.Space, error) {
	condition, args := nameCondition(names)
	var spaces []walk.Space
	err := r.query(ctx, fmt.Sprintf(walkNamespaces, condition), append([]any{kind.ID, from, limit}, args...), func(rows *sql.Rows) (bool, error) {
		var s walk.Space
		err := rows.Scan(&s.Namespace, &s.Has)
		spaces = append(spaces, s)
		return true, err
	})
	return spaces, err
}

// LastName implements walk.Ranges.
func (r *reader) LastName(ctx context.Context, kind walk.Kind, namespace string) (name string, err error) {
	err = r.query(ctx, "SELECT max(name) FROM objects WHERE kind = ? AND ns = ?", []any{kind.ID, namespace},
		func(rows *sql.Rows) (bool, error) { return false, rows.Scan(&name) })
	return name, err
}

// tableOf gives the table and column of a term, and its hashes.
func tableOf(t walk.Term) (table, column string, args []any) {
	args = make([]any, len(t.Hashes))
	for i, hash := range t.Hashes {
		args[i] = hash
	}
	if t.Word {
		return "words", "word", args
	}
	return "labels", "label", args
}

// count is how many rows of the kind the index gives for the term, limit if there
// are more.
func (r *reader) count(ctx context.Context, kind walk.Kind, t walk.Term, limit int) (n int, err error) {
	table, column, args := tableOf(t)
	err = r.query(ctx, fmt.Sprintf(countTerm, table, column, more(len(args))), append(args, kind.ID, limit),
		func(rows *sql.Rows) (bool, error) { return false, rows.Scan(&n) })
	return n, err
}

// Having implements walk.Postings: by one term after the other.
func (r *reader) Having(ctx context.Context, kinds []walk.Kind, terms []walk.Term) (map[int64]bool, error) {
	numbers := make([]int64, len(kinds))
	for i := range kinds {
		numbers[i] = kinds[i].ID
	}
	have := map[int64]bool{}
	for _, t := range terms {
		list, err := json.Marshal(numbers)
		if err != nil {
			return nil, err
		}
		table, column, args := tableOf(t)
		clear(have)
		numbers = numbers[:0]
		err = r.query(ctx, fmt.Sprintf(havingTerm, table, column, more(len(args))), append([]any{string(list)}, args...), func(rows *sql.Rows) (bool, error) {
			var kind int64
			err := rows.Scan(&kind)
			if !have[kind] {
				numbers = append(numbers, kind)
			}
			have[kind] = true
			return true, err
		})
		if err != nil || len(numbers) == 0 {
			return have, err
		}
	}
	return have, nil
}

// Few implements walk.Postings: those of the rarest term.
func (r *reader) Few(ctx context.Context, kind walk.Kind, terms []walk.Term, most int, each func(*walk.Found)) (bool, error) {
	fewest := most + 1
	var rarest *walk.Term
	for i := range terms {
		count, err := r.count(ctx, kind, terms[i], fewest)
		if err != nil {
			return false, err
		}
		if count < fewest {
			fewest, rarest = count, &terms[i]
		}
	}
	if rarest == nil {
		return false, nil
	}
	rows, before := r.selectRows()
	table, column, args := tableOf(*rarest)
	text := rows + fmt.Sprintf(walkTerm, table, column, more(len(args)))
	return true, r.query(ctx, text, append(append(before, args...), kind.ID), func(rows *sql.Rows) (bool, error) {
		f := &walk.Found{}
		if err := r.found(rows, kind, f); err != nil {
			return false, err
		}
		each(f)
		return true, nil
	})
}

// Bodies implements walk.Index.
func (r *reader) Bodies(ctx context.Context, ids []int64, each func(id int64, body []byte)) error {
	return r.bodies(ctx, "objects", ids, each)
}

// bodiesPerQuery is how many bodies are read with one query.
const bodiesPerQuery = 100

func (r *reader) bodies(ctx context.Context, table string, ids []int64, each func(id int64, body []byte)) error {
	for ids := range slices.Chunk(ids, bodiesPerQuery) {
		args := make([]any, len(ids))
		for i, id := range ids {
			args[i] = id
		}
		err := r.query(ctx, "SELECT id, body FROM "+table+" WHERE id IN (?"+more(len(ids))+")", args, func(rows *sql.Rows) (bool, error) {
			var id int64
			var body []byte
			if err := rows.Scan(&id, &body); err != nil {
				return false, err
			}
			each(id, body)
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
