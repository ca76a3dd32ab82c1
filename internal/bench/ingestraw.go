// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// rawDatabase is a database through its library alone.
type rawDatabase interface {
	// tables reads everything.
	tables(ctx context.Context) ([]rawTable, error)
	// write writes one step in one transaction, durably.
	write(ctx context.Context, step rawStep) error
	close(ctx context.Context) error
}

// rawTable is a table with its rows.
type rawTable struct {
	name    string
	columns []string
	types   []string // where the library needs them
	key     []int    // columns of the primary key
	rows    [][]any
}

// rawStep is what one transaction does to the tables.
type rawStep []rawPart

// rawPart is what it does to one of them.
type rawPart struct {
	table            *rawTable
	inserts, updates [][]any
	deletes          [][]any
	changed          []int // columns that updates change
	// upsert is set for objects: who has rows and no ids of them writes new and known
	// ones in this way, by their key.
	upsert []string
}

// rawRows is what the chain did to the tables, in the inserts and in the updates.
type rawRows struct {
	objects int
	tables  [3][]rawTable
	steps   [2][]rawStep
}

// parents come first, because others refer to them.
var parents = []string{"accounts", "clusters", "kinds", "sources"}

// compare finds the steps that make of an empty schema the first state and of that
// the second, as many as the chain needs transactions at least.
func (r *rawRows) compare() {
	n := (r.objects + ingestBatch - 1) / ingestBatch
	before := map[string]*rawTable{}
	for k := range r.tables[0] {
		before[r.tables[0][k].name] = &r.tables[0][k]
	}
	for phase := range r.steps {
		tables := r.tables[phase+1]
		r.steps[phase] = make([]rawStep, n)
		slices.SortStableFunc(tables, func(a, b rawTable) int {
			rank := func(t *rawTable) int {
				if i := slices.Index(parents, t.name); i >= 0 {
					return i
				}
				return len(parents)
			}
			return cmp.Compare(rank(&a), rank(&b))
		})
		for k := range tables {
			table := &tables[k]
			part := table.since(before[table.name])
			before[table.name] = table
			small := len(part.inserts) < r.objects/10 // rows that many objects share: once is enough
			var upsert []string
			if table.name == "objects" {
				upsert = []string{"kind", "ns", "name"}
				part.inserts, part.updates = append(part.inserts, part.updates...), nil
			}
			for i := range n {
				piece := rawPart{table: table, changed: part.changed, upsert: upsert}
				share := func(rows [][]any) [][]any { return rows[i*len(rows)/n : (i+1)*len(rows)/n] }
				piece.inserts, piece.updates, piece.deletes = share(part.inserts), share(part.updates), share(part.deletes)
				if small {
					piece.inserts = nil
					if i == 0 {
						piece.inserts = part.inserts
					}
				}
				table.sortByKey(piece.inserts)
				if len(piece.inserts)+len(piece.updates)+len(piece.deletes) > 0 {
					r.steps[phase][i] = append(r.steps[phase][i], piece)
				}
			}
		}
	}
}

// since is what makes t of an earlier state of it.
func (t *rawTable) since(before *rawTable) rawPart {
	part := rawPart{table: t}
	known := map[string][]any{}
	if before != nil {
		for _, row := range before.rows {
			known[t.keyOf(row)] = row
		}
	}
	changed := map[int]bool{}
	for _, row := range t.inOrder() {
		key := t.keyOf(row)
		old, ok := known[key]
		delete(known, key)
		if !ok {
			part.inserts = append(part.inserts, row)
			continue
		}
		differs := false
		for c := range row {
			if fmt.Sprint(row[c]) != fmt.Sprint(old[c]) {
				changed[c], differs = true, true
			}
		}
		if differs {
			part.updates = append(part.updates, row)
		}
	}
	for _, row := range known {
		part.deletes = append(part.deletes, row)
	}
	for c := range t.columns {
		if changed[c] {
			part.changed = append(part.changed, c)
		}
	}
	return part
}

// inOrder are the rows in the order of the objects that they are about, so that
// those of one object are written by one step.
func (t *rawTable) inOrder() [][]any {
	rows := slices.Clone(t.rows)
	for _, name := range []string{"obj", "id", "pos"} {
		if at := slices.Index(t.columns, name); at >= 0 {
			slices.SortStableFunc(rows, func(a, b []any) int { return compareNumbers(a[at], b[at]) })
			break
		}
	}
	return rows
}

// compareNumbers compares values that are whole numbers, or texts of them.
func compareNumbers(a, b any) int {
	x, y := fmt.Sprint(a), fmt.Sprint(b)
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
}

func (t *rawTable) sortByKey(rows [][]any) {
	slices.SortStableFunc(rows, func(a, b []any) int {
		for _, c := range t.key {
			if n := compareNumbers(a[c], b[c]); n != 0 {
				return n
			}
		}
		return 0
	})
}

func (t *rawTable) keyOf(row []any) string {
	var key strings.Builder
	for _, c := range t.key {
		_, _ = fmt.Fprintf(&key, "%v\x00", row[c])
	}
	return key.String()
}

// onConflict is the end of an upsert.
func (p *rawPart) onConflict() string {
	if p.upsert == nil {
		return ""
	}
	var set []string
	for c, name := range p.table.columns {
		if !slices.Contains(p.upsert, name) && !slices.Contains(p.table.key, c) {
			set = append(set, `"`+name+`" = excluded."`+name+`"`)
		}
	}
	return " ON CONFLICT (" + quoted(p.upsert) + ") DO UPDATE SET " + strings.Join(set, ", ")
}

func quoted(columns []string) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = `"` + c + `"`
	}
	return strings.Join(list, ", ")
}
