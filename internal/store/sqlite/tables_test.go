// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/store/index"
	"synchronizer/internal/store/walk"
)

// plan gives the query plan as text.
func plan(t *testing.T, db *DB, query string, args ...any) string {
	t.Helper()
	rows, err := db.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var lines []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		lines = append(lines, detail)
	}
	require.NoError(t, rows.Err())
	return strings.Join(lines, "\n")
}

// TestPlans: lists walk an index in the order of the result and sort nothing.
func TestPlans(t *testing.T) {
	db := openAt(t, newPath(t))
	rows, _ := newReader(nil, index.Words{1}).selectRows() // the word is its first parameter
	for text, args := range map[string][]any{
		rows + walkKind:                       {1, "", "", 10},
		rows + walkKindStart:                  {1, 10},
		walkKnown:                             {1},
		rows + fmt.Sprintf(walkNamespace, ""): {1, "", "", 10},
		rows + fmt.Sprintf(walkNamespace, " AND o.name < ?"): {1, "", "", "x", 10},
		rows + fmt.Sprintf(walkNames, ",?"):                  {1, "", "a", "b", 10},
	} {
		if strings.HasPrefix(text, rows) {
			args = append([]any{1}, args...)
			require.Contains(t, plan(t, db, text, args...), "SEARCH w USING PRIMARY KEY (word=? AND kind=? AND obj=?)")
		}
		got := plan(t, db, text, args...)
		require.Contains(t, got, "USING", text)
		require.Contains(t, got, "INDEX objects_key (kind=?", text)
		require.NotContains(t, got, "TEMP B-TREE", text)
		require.NotContains(t, got, "SCAN", text)
	}
	for table, column := range map[string]string{"labels": "label", "words": "word"} {
		want := "PRIMARY KEY (" + column + "=? AND kind=?)"
		require.Contains(t, plan(t, db, fmt.Sprintf(countTerm, table, column, ",?"), 1, 2, 3, 4), want)
		require.Contains(t, plan(t, db, rows+fmt.Sprintf(walkTerm, table, column, ",?"), 1, 1, 2, 3), want)
		require.Contains(t, plan(t, db, fmt.Sprintf(havingTerm, table, column, ",?"), "[1]", 2, 3), want)
	}
	for _, names := range []walk.Names{{In: []string{"a", "b"}}, {From: "a", End: "b"}, {From: "\U0010ffff"}} {
		condition, args := nameCondition(names)
		got := plan(t, db, fmt.Sprintf(walkNamespaces, condition), append([]any{1, "", 10}, args...)...)
		require.Equal(t, 2, strings.Count(got, "SEARCH objects USING COVERING INDEX objects_key (kind=? AND ns>?)"), got)
		require.Contains(t, got, "SEARCH o USING COVERING INDEX objects_key (kind=? AND ns=? AND name", got)
	}
	for text, want := range map[string]string{
		walkSet: "COVERING INDEX objects_hash (kind=?)", walkChanges: "PRIMARY KEY (account=? AND pos>?)", walkEvents: "INDEX events_time (account=? AND at<?)",
		"SELECT id FROM objects WHERE deleted_at > 0 AND deleted_at < ?": "INDEX objects_deleted (deleted_at>? AND deleted_at<?)",
	} {
		got := plan(t, db, text, 1, 2, 3, 4)
		require.Contains(t, got, want, text)
		require.NotContains(t, got, "TEMP B-TREE", text)
	}
	full := scope{account: "a", clusters: []string{"c"}, groups: []string{"g"}}
	text, args := full.kindsQuery(&walk.Position{Account: "a"})
	got := plan(t, db, text, args...)
	require.NotContains(t, got, "TEMP B-TREE")
	require.Contains(t, got, "sqlite_autoindex_clusters_1 (account=? AND name=?)")
	require.Contains(t, got, "(cluster=? AND grp=?)")
	text, args = scope{}.kindsQuery(nil)
	require.NotContains(t, plan(t, db, text, args...), "TEMP B-TREE")

	for _, m := range []*multiRow{selectRows, selectSources, deleteLabels} {
		values := make([]any, m.width)
		got := plan(t, db, m.texts[1], values...)
		require.NotContains(t, got, "SCAN o", got)
		require.NotContains(t, got, "SCAN s", got)
		require.NotContains(t, got, "SCAN labels", got)
		require.NotContains(t, got, "AUTOMATIC", got)
	}
}

func TestLabelRowsFollowObjects(t *testing.T) {
	ctx := t.Context()
	db := openAt(t, newPath(t))
	count := func() int64 { return number(t, db, "SELECT count(*) FROM labels") }
	require.NoError(t, put(ctx, db, pod("n", "x", 1, `"a":"1","b":"2"`), pod("n", "y", 1, `"a":"1"`)))
	require.Equal(t, int64(3), count())
	require.Equal(t, int64(1), number(t, db, "SELECT count(*) FROM objects WHERE labels->>'b' = '2'"))
	require.NoError(t, put(ctx, db, pod("n", "x", 2, `"b":"2","c":"3","d":"4"`)))
	require.Equal(t, int64(4), count())
	gone := pod("n", "x", 3, "")
	gone.Body, gone.DeletedAt = nil, gone.UpdatedAt
	require.NoError(t, put(ctx, db, gone))
	require.Equal(t, int64(1), count())
	require.Equal(t, int64(2), number(t, db, "SELECT count(*) FROM objects"))
}

// TestLabelCollision: an index entry that belongs to another label is seen
// through.
func TestLabelCollision(t *testing.T) {
	ctx := t.Context()
	db := openAt(t, newPath(t))
	require.NoError(t, put(ctx, db, pod("n", "x", 1, `"a":"1"`), pod("n", "y", 1, `"a":"2"`)))
	_, err := db.write.conn.ExecContext(ctx, "INSERT INTO labels SELECT ?, kind, id FROM objects WHERE name = 'y'", index.LabelHash("a", "1"))
	require.NoError(t, err)
	for values, want := range map[string]int{"1": 1, "1,2": 2} {
		page, err := db.Objects(ctx, synchronizer.ObjectQuery{Labels: []synchronizer.LabelRequirement{
			{Key: "a", Operator: synchronizer.LabelIn, Values: strings.Split(values, ",")},
		}})
		require.NoError(t, err)
		require.Len(t, page.Rows, want)
	}
}

func TestForeignKeysHold(t *testing.T) {
	ctx := t.Context()
	db := openAt(t, newPath(t))
	require.NoError(t, put(ctx, db, pod("n", "x", 1, `"a":"1"`)))
	require.Equal(t, int64(0), number(t, db, "SELECT count(*) FROM pragma_foreign_key_check"))
	require.Equal(t, int64(0), number(t, db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"))
}

// TestScanLimit: what no index finds ends with short pages, and loses nothing.
func TestScanLimit(t *testing.T) {
	ctx := t.Context()
	const scanLimit = 1000
	db := openAt(t, newPath(t), func(s *settings) { s.limits.Rows = scanLimit })
	const n = 10*scanLimit + 500
	rows := make([]synchronizer.Row, 0, 1000)
	for i := range n {
		labels := `"wide":"yes"`
		if i%2000 == 1999 {
			labels += `,"odd":"yes"`
		}
		if i < n/2 {
			labels += `,"half":"yes"`
		}
		row := pod(fmt.Sprintf("n%d", i%3000), fmt.Sprintf("p%05d", i), uint64(i), labels)
		row.UpdatedAt = time.Unix(int64(i+1), 0)
		if rows = append(rows, row); len(rows) == cap(rows) {
			require.NoError(t, put(ctx, db, rows...))
			rows = rows[:0]
		}
	}
	require.NoError(t, put(ctx, db, rows...))
	label := func(key string, operator synchronizer.LabelOperator, values ...string) []synchronizer.LabelRequirement {
		return []synchronizer.LabelRequirement{{Key: key, Operator: operator, Values: values}}
	}
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf("p%05d", 100*i))
	}
	for name, test := range map[string]struct {
		q        synchronizer.ObjectQuery
		want     int
		maxPages int
		minPages int
	}{
		"label of few":      {synchronizer.ObjectQuery{Labels: label("odd", synchronizer.LabelIn, "yes")}, 5, 1, 1},
		"label of many":     {synchronizer.ObjectQuery{Labels: label("half", synchronizer.LabelIn, "yes"), Limit: 5000}, n / 2, 9, 6},
		"label exists":      {synchronizer.ObjectQuery{Labels: label("odd", synchronizer.LabelExists)}, 5, 12, 10},
		"since":             {synchronizer.ObjectQuery{UpdatedSince: time.Unix(n, 0)}, 1, 12, 10},
		"name in any space": {synchronizer.ObjectQuery{Names: []string{"p00007", "p00008"}}, 2, 4, 3},
		"names by range":    {synchronizer.ObjectQuery{Names: many}, 60, 4, 3},
		"everything":        {synchronizer.ObjectQuery{Limit: 10_000}, n, 2, 2},
	} {
		found, pages := 0, 0
		for {
			page, err := db.Objects(ctx, test.q)
			require.NoError(t, err)
			found, pages = found+len(page.Rows), pages+1
			if test.q.Continue = page.Continue; page.Continue == "" {
				break
			}
		}
		require.Equal(t, test.want, found, name)
		require.LessOrEqual(t, pages, test.maxPages, name)
		require.GreaterOrEqual(t, pages, test.minPages, name)
	}
}

// TestPageBytes: a page of large bodies ends early.
func TestPageBytes(t *testing.T) {
	ctx := t.Context()
	const pageBytes = 1 << 20
	db := openAt(t, newPath(t), func(s *settings) { s.limits.Bytes = pageBytes })
	for i := range 5 {
		row := pod("n", fmt.Sprint(i), 1, "")
		row.Body = make([]byte, pageBytes/2-1)
		require.NoError(t, put(ctx, db, row))
	}
	var sizes []int
	q := synchronizer.ObjectQuery{Full: true}
	for {
		page, err := db.Objects(ctx, q)
		require.NoError(t, err)
		sizes = append(sizes, len(page.Rows))
		if q.Continue = page.Continue; q.Continue == "" {
			break
		}
	}
	require.Equal(t, []int{2, 2, 1}, sizes)
}
