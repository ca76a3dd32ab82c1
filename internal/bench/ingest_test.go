// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What the library alone writes are the rows that the ingester wrote, once each,
// whatever they were before.
func TestRawSteps(t *testing.T) {
	table := func(rows ...[]any) []rawTable {
		return []rawTable{
			{name: "labels", columns: []string{"label", "obj"}, key: []int{0, 1}, rows: [][]any{{int64(9), int64(1)}}},
			{name: "objects", columns: []string{"id", "kind", "ns", "name", "body"}, key: []int{0}, rows: rows},
		}
	}
	first, second := []any{int64(2), int64(1), "n", "b", "old"}, []any{int64(10), int64(1), "n", "a", "x"}
	changed := []any{int64(2), int64(1), "n", "b", "new"}
	r := rawRows{objects: 1000, tables: [3][]rawTable{{}, table(first, second), table(changed, second)}}
	r.compare()
	written := func(phase int, name string) (rows [][]any) {
		for _, step := range r.steps[phase] {
			for _, part := range step {
				if part.table.name == name {
					rows = append(rows, part.inserts...)
					require.Empty(t, part.deletes)
					if name == "objects" {
						require.Equal(t, ` ON CONFLICT ("kind", "ns", "name") DO UPDATE SET "body" = excluded."body"`, part.onConflict())
					}
				}
			}
		}
		return rows
	}
	require.Equal(t, [][]any{first, second}, written(0, "objects"), "by number, not by text")
	require.Len(t, written(0, "labels"), 1)
	require.Equal(t, [][]any{changed}, written(1, "objects"))
	require.Empty(t, written(1, "labels"))
}

// The whole benchmark, with few objects.
func TestIngest(t *testing.T) {
	for _, store := range Stores {
		t.Run(store, func(t *testing.T) {
			report, err := Ingest(t.Context(), IngestOptions{Store: store, Seed: 1, Objects: 100, Runs: 1, Rows: 200, Queries: 3, Workers: 2})
			require.NoError(t, err)
			for _, want := range [][2]string{
				{groupInserts, objectsPerSecond},
				{groupUpdates, ofRaw},
				{groupRepeats, "records per second"},
				{groupFirstPage, "by label, then"},
				{groupDisk, "size with 200 rows, of the size of their JSON"},
			} {
				f, ok := report.figure(want[0], want[1])
				require.True(t, ok, want)
				require.Positive(t, f.Value, want)
			}
		})
	}
}
