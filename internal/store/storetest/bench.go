// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

const benchBatch = 500

// benchRow is an object of 2.7 KB with 8 labels, two of them nearly unique.
func benchRow(i int, seq uint64) synchronizer.Row {
	random := rand.New(rand.NewPCG(uint64(i), seq))
	name := fmt.Sprintf("app-%05d-%08x", i, random.Uint32())
	if seq > 0 {
		name = fmt.Sprintf("app-%05d-%08x", i, rand.New(rand.NewPCG(uint64(i), 0)).Uint32())
	}
	ns := fmt.Sprintf("team-%03d", i%200)
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":%q,"uid":"%08x-0000-4000-8000-000000000000","resourceVersion":"%d",`+
		`"labels":{"app.kubernetes.io/name":"app-%d","app.kubernetes.io/instance":"app-%d","app.kubernetes.io/version":"1.%d.0","app.kubernetes.io/part-of":"suite-%d",`+
		`"app.kubernetes.io/managed-by":"Helm","tier":"backend","team":"team-%d","pod-template-hash":"%08x"},"annotations":{`,
		name, ns, i, 1000+seq, i%300, i, i%40, i%20, i%50, uint32(i)*2654435761)
	for n := 0; len(body) < 2600; n++ {
		if n > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `"example.org/annotation-%d":"%016x%016x"`, n, random.Uint64(), random.Uint64())
	}
	body = fmt.Appendf(body, `}},"spec":{"containers":[{"name":"main","image":"registry.example.org/team/app-%d:1.%d.%d"}]},"status":{"phase":"Running","podIP":"10.0.%d.%d","seen":%d}}`, i%300, i%40, i%7, i/250%250, i%250, seq)
	return synchronizer.Row{
		Key: synchronizer.ObjectKey{ClusterID: prod, Kind: pods, Namespace: ns, Name: name},
		UID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i), ResourceVersion: fmt.Sprint(1000 + seq),
		Checksum: fmt.Sprintf("%064x", random.Uint64()), Order: synchronizer.Order{Generation: 1, Seq: seq*1_000_000 + uint64(i) + 1},
		UpdatedAt: time.Now(), Body: body,
	}
}

func benchRows(n int, seq uint64) []synchronizer.Row {
	rows := make([]synchronizer.Row, n)
	for place, i := range rand.New(rand.NewPCG(1, seq)).Perm(n) {
		rows[place] = benchRow(i, seq)
	}
	return rows
}

// cpu is the time that the process has used.
func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func writeBatches(b *testing.B, ctx context.Context, store synchronizer.Store, rows []synchronizer.Row) {
	for batch := range slices.Chunk(rows, benchBatch) {
		write(b, ctx, store, batch...)
	}
}

func report(b *testing.B, rows int, used time.Duration) {
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(used.Microseconds())/float64(rows), "cpu-µs/row")
	b.ReportMetric(0, "ns/op")
}

// Bench measures a store: batches of 500 rows as the ingester writes them, then
// pages of a store of n rows. CPU is that of this process.
func Bench(b *testing.B, n int, open func(b *testing.B) Backend) {
	b.Run("Insert", func(b *testing.B) {
		store := open(b)
		rows := benchRows(b.N*benchBatch, 0)
		b.ResetTimer()
		before := cpu(b)
		writeBatches(b, b.Context(), store, rows)
		report(b, len(rows), cpu(b)-before)
	})
	store := open(b)
	writeBatches(b, b.Context(), store, benchRows(n, 0))
	for _, test := range []struct {
		name string
		edit func(*synchronizer.Row)
	}{
		{"Update", func(*synchronizer.Row) {}},
		{"Confirm", func(row *synchronizer.Row) { row.Touched, row.Body = true, nil }},
	} {
		b.Run(test.name, func(b *testing.B) {
			var used time.Duration
			rows := benchRows(n, 1)
			for i := range rows {
				test.edit(&rows[i])
			}
			b.ResetTimer()
			for round := 0; b.Loop(); round++ {
				start := round * benchBatch % n
				before := cpu(b)
				write(b, b.Context(), store, rows[start:start+benchBatch]...)
				used += cpu(b) - before
			}
			report(b, b.N*benchBatch, used)
		})
	}
	benchRead(b, store)
	b.Run("Size", func(b *testing.B) {
		stats, err := store.Stats(b.Context())
		require.NoError(b, err)
		b.ReportMetric(float64(stats.Bytes)/float64(stats.BodyBytes), "database/JSON")
		b.ReportMetric(0, "ns/op")
	})
}

func benchRead(b *testing.B, store Backend) {
	base := synchronizer.ObjectQuery{Account: "acme", Clusters: []string{"prod"}, Groups: []string{"core"}, Resources: []string{"pods"}}
	for _, test := range []struct {
		name string
		edit func(*synchronizer.ObjectQuery)
	}{
		{"Namespace", func(q *synchronizer.ObjectQuery) { q.Namespaces = []string{"team-007"} }},
		{"First100", func(*synchronizer.ObjectQuery) {}},
		{"First100Full", func(q *synchronizer.ObjectQuery) { q.Full = true }},
		{"Full10000", func(q *synchronizer.ObjectQuery) { q.Full, q.Limit = true, 10_000 }},
		{"NameAnywhere", func(q *synchronizer.ObjectQuery) { q.NamePrefix = "app-12345-" }},
		{"LabelOfFew", func(q *synchronizer.ObjectQuery) {
			q.Labels = []synchronizer.LabelRequirement{{Key: "app.kubernetes.io/name", Operator: synchronizer.LabelIn, Values: []string{"app-7"}}}
		}},
		{"LabelOfAll", func(q *synchronizer.ObjectQuery) {
			q.Labels = []synchronizer.LabelRequirement{{Key: "tier", Operator: synchronizer.LabelIn, Values: []string{"backend"}}}
		}},
		{"SearchOfOne", func(q *synchronizer.ObjectQuery) { *q = synchronizer.ObjectQuery{Account: "acme", Search: "app 00777"} }},
		{"SearchOfFew", func(q *synchronizer.ObjectQuery) { *q = synchronizer.ObjectQuery{Account: "acme", Search: "team 007"} }},
		{"SearchOfAll", func(q *synchronizer.ObjectQuery) { *q = synchronizer.ObjectQuery{Account: "acme", Search: "helm"} }},
		{"LabelOf1000", func(q *synchronizer.ObjectQuery) {
			q.Labels = []synchronizer.LabelRequirement{{Key: "app.kubernetes.io/part-of", Operator: synchronizer.LabelIn, Values: []string{"suite-3"}}}
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			q := base
			test.edit(&q)
			for b.Loop() {
				page, err := store.Objects(b.Context(), q)
				require.NoError(b, err)
				require.NotEmpty(b, page.Rows)
			}
		})
	}
	b.Run("Sets", func(b *testing.B) {
		for b.Loop() {
			sets, err := store.Sets(b.Context(), synchronizer.ClusterKind{ClusterID: prod, Kind: pods})
			require.NoError(b, err)
			require.Len(b, sets, 200)
		}
	})
}
