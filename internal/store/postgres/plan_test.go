// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/store/walk"
	"synchronizer/test/pgtest"
)

// After a first sync nobody has analyzed the table yet, and the planner takes a
// kind for a few objects. A page goes along the index of the keys all the same.
func TestPlansWithoutStatistics(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := openAt(t, pgtest.Database(t))
	_, err := db.pool.Exec(ctx, "ALTER TABLE objects SET (autovacuum_enabled = false)")
	require.NoError(t, err)
	for namespace := range 6 {
		var rows []synchronizer.Row
		for i := range 500 {
			rows = append(rows, pod(fmt.Sprintf("team-%d", namespace), fmt.Sprintf("web-%04d", i), uint64(i+1)))
		}
		require.NoError(t, put(ctx, db, rows...))
	}
	for name, c := range map[string]struct {
		of    walk.Range
		index string
	}{
		"all":            {walk.Range{}, "Index Cond: (kind ="},
		"behind a place": {walk.Range{Behind: &walk.Place{Namespace: "team-2", Name: "web-0100"}}, "ROW(ns, name) >"},
		"a namespace":    {walk.Range{InNamespace: true, Namespace: "team-3"}, "(ns ="},
		"a prefix":       {walk.Range{InNamespace: true, Namespace: "team-3", Names: walk.Names{From: "web-01", End: "web-02"}}, "(name >="},
		"names":          {walk.Range{InNamespace: true, Namespace: "team-3", Names: walk.Names{In: []string{"web-0001", "web-0400"}}}, "(name = ANY"},
	} {
		t.Run(name, func(t *testing.T) {
			named := c.of.Names.In != nil || c.of.Names.From != ""
			var plan strings.Builder
			require.NoError(t, db.reading(ctx, "explaining", func(tx pgx.Tx) error {
				kinds, err := of(synchronizer.ClusterKind{ClusterID: prod, Kind: pods}).kinds(ctx, tx, nil)
				require.NoError(t, err)
				require.NoError(t, keepToIndexes(ctx, tx, false, named))
				r := reader{tx: tx}
				text, args := r.scanQuery(kinds[0], c.of, 2000)
				return r.query(ctx, "EXPLAIN "+text, args, func(rows pgx.Rows) (bool, error) {
					var line string
					err := rows.Scan(&line)
					plan.WriteString(line + "\n")
					return true, err
				})
			}))
			require.Contains(t, plan.String(), "objects_key")
			require.Contains(t, plan.String(), c.index)
			require.NotContains(t, plan.String(), "Seq Scan")
			if !named {
				require.NotContains(t, plan.String(), "Sort")
			}
		})
	}
}
