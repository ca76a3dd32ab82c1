// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"synchronizer"
	"synchronizer/internal/kube/recorded"
	"synchronizer/internal/rawjson"
)

const (
	groupFirstPage = "first page (100 rows) of the large database, p95 of 200 queries"
	groupWhole     = "the large database"
	readQueries    = 200
	readAccount    = "11111111-2222-3333-4444-555555555555"
	// wholeObjects are read at once, out of the cluster of wholeOf.
	wholeObjects, wholeOf = 10_000, 100_000
)

// largeDatabase is the large database: what it holds is known by what it was made from.
type largeDatabase struct {
	clusters   []string
	namespaces []string
	prefixes   []string
	labels     [][2]string
	words      []string
	bytes      int64 // of the JSON
	largest    int   // objects of the first cluster
}

// reading measures queries over many rows.
func (o *IngestOptions) reading(ctx context.Context, report *Report, dbs databases) (err error) {
	db, err := dbs.next(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.remove(context.WithoutCancel(ctx))) }()
	store, err := db.open(ctx)
	if err != nil {
		return err
	}
	o.Progress.Start("filling", o.Rows)
	large, err := o.fill(ctx, store)
	o.Progress.Stop()
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	size, err := db.size(ctx)
	if err != nil {
		return err
	}
	if err := db.restart(ctx); err != nil {
		return err
	}
	if store, err = db.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, q := range large.queries(o.Seed) {
		for _, when := range []string{"first after a restart", "then"} {
			p95, err := o.timeQueries(ctx, store, q.make)
			if err != nil {
				return fmt.Errorf("by %s: %w", q.by, err)
			}
			report.add(groupFirstPage, "by "+q.by+", "+when, "ms", milliseconds(p95), below(q.goal))
		}
	}
	whole, err := timeWhole(ctx, store, large)
	if err != nil {
		return err
	}
	if whole > 0 {
		report.add(groupWhole, fmt.Sprintf("%s whole objects of a cluster of %s", number(float64(wholeObjects)), number(float64(large.largest))), "ms", milliseconds(whole), below(300))
	}
	if hashes, err := timeSets(ctx, store, large); err != nil {
		return err
	} else if hashes > 0 {
		report.add(groupWhole, fmt.Sprintf("set-hashes of all namespaces of a cluster of %s", number(float64(large.largest))), "ms", milliseconds(hashes), below(map[string]float64{SQLite: 100, Postgres: 50}[o.Store]))
	}
	report.add(groupDisk, fmt.Sprintf("size with %s rows, of the size of their JSON", number(float64(o.Rows))), "", float64(size)/float64(large.bytes), atMost(1.6))
	report.Notes = append(report.Notes, fmt.Sprintf("The large database has %s rows of generated Deployments and Pods, one cluster of %s and others of half as many; a query asks for values that occur, each time for others. "+
		"A restart of the database leaves its files in the memory of the operating system. The size is that after filling, without a VACUUM.", number(float64(o.Rows)), number(float64(large.largest))))
	return nil
}

// fill writes rows as an ingester does.
func (o *IngestOptions) fill(ctx context.Context, store benchStore) (*largeDatabase, error) {
	large := &largeDatabase{largest: min(wholeOf, o.Rows)}
	seq := uint64(0)
	for left, size := o.Rows, min(wholeOf, o.Rows); left > 0; size = min(wholeOf/2, left) {
		cluster := fmt.Sprintf("bench-%02d", len(large.clusters))
		id := synchronizer.ClusterID{Account: readAccount, Cluster: cluster}
		kind := []synchronizer.Kind{recorded.Deployments, recorded.Pods}[min(len(large.clusters)%3, 1)]
		large.clusters = append(large.clusters, cluster)
		var batch []synchronizer.Row
		flush := func() error {
			err := store.Update(ctx, func(tx synchronizer.Tx) error {
				keys := make([]synchronizer.ObjectKey, len(batch))
				for i := range batch {
					keys[i] = batch[i].Key
				}
				if _, err := tx.Rows(ctx, keys, make([]bool, len(keys))); err != nil {
					return err
				}
				return tx.Write(ctx, batch)
			})
			o.Progress.Add(len(batch))
			batch = batch[:0]
			return err
		}
		for item := range recorded.Generate(kind, o.Seed+uint64(len(large.clusters)), size) {
			seq++
			meta, err := rawjson.Metadata(item.Body)
			if err != nil {
				return nil, err
			}
			large.note(&item, &meta, int(seq))
			batch = append(batch, synchronizer.Row{
				Key: synchronizer.ObjectKey{ClusterID: id, Kind: item.Kind, Namespace: item.Namespace, Name: item.Name},
				UID: meta.UID, ResourceVersion: meta.ResourceVersion, Checksum: fmt.Sprintf("%064x", seq),
				Order: synchronizer.Order{Generation: 1, Seq: seq}, UpdatedAt: time.Now(), Body: item.Body,
			})
			if len(batch) == ingestBatch {
				if err := flush(); err != nil {
					return nil, err
				}
			}
		}
		if err := flush(); err != nil {
			return nil, err
		}
		left -= size
	}
	return large, nil
}

// note remembers some values of what is stored.
func (l *largeDatabase) note(item *recorded.Item, meta *rawjson.Meta, n int) {
	l.bytes += int64(len(item.Body))
	if n%97 != 0 || len(l.prefixes) >= 5000 {
		return
	}
	if !slices.Contains(l.namespaces, item.Namespace) {
		l.namespaces = append(l.namespaces, item.Namespace)
	}
	l.prefixes = append(l.prefixes, item.Name[:min(len(item.Name), 9)])
	for _, key := range []string{"app.kubernetes.io/name", "app", "team", "app.kubernetes.io/instance"} {
		if value, ok := meta.Label(key); ok {
			l.labels = append(l.labels, [2]string{key, value})
			l.words = append(l.words, value)
		}
	}
}

// readQuery makes queries of one sort.
type readQuery struct {
	by   string
	goal float64 // ms
	make func() synchronizer.ObjectQuery
}

func (l *largeDatabase) queries(seed uint64) []readQuery {
	random := rand.New(rand.NewPCG(seed, 7))
	pick := func(list []string) []string { return []string{list[random.IntN(len(list))]} }
	account := synchronizer.ObjectQuery{Account: readAccount}
	list := []readQuery{
		{"account", 20, func() synchronizer.ObjectQuery { return account }},
		{"cluster", 20, func() synchronizer.ObjectQuery {
			q := account
			q.Clusters = pick(l.clusters)
			return q
		}},
		{"kind", 20, func() synchronizer.ObjectQuery {
			q := account
			q.Resources = pick([]string{"deployments", "pods"})
			return q
		}},
		{"namespace", 20, func() synchronizer.ObjectQuery {
			q := account
			q.Namespaces = pick(l.namespaces)
			return q
		}},
		{"name prefix", 20, func() synchronizer.ObjectQuery {
			q := account
			q.NamePrefix = pick(l.prefixes)[0]
			return q
		}},
		{"label", 20, func() synchronizer.ObjectQuery {
			q := account
			label := l.labels[random.IntN(len(l.labels))]
			q.Labels = []synchronizer.LabelRequirement{{Key: label[0], Operator: synchronizer.LabelIn, Values: []string{label[1]}}}
			return q
		}},
	}
	return append(list, l.searches(random)...)
}

// timeQueries runs queries one after the other.
func (o *IngestOptions) timeQueries(ctx context.Context, store benchStore, q func() synchronizer.ObjectQuery) (p95 time.Duration, err error) {
	took := make([]time.Duration, cmp.Or(o.Queries, readQueries))
	for i := range took {
		query := q()
		start := time.Now()
		if _, err := store.Objects(ctx, query); err != nil {
			return 0, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return quantile(took, .95), nil
}

// timeWhole is the median of five readings.
func timeWhole(ctx context.Context, store benchStore, l *largeDatabase) (time.Duration, error) {
	var took []time.Duration
	for range 5 {
		start := time.Now()
		page, err := store.Objects(ctx, synchronizer.ObjectQuery{Account: readAccount, Clusters: l.clusters[:1], Full: true, Limit: wholeObjects})
		if err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
		if len(page.Rows) < wholeObjects {
			return 0, nil // the database was made too small for it
		}
		for i := range page.Rows {
			if len(page.Rows[i].Body) == 0 {
				return 0, errors.New("reading whole objects: one came without its body")
			}
		}
	}
	slices.Sort(took)
	return quantile(took, .5), nil
}
