// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"synchronizer"
)

// Generations implements synchronizer.Tx.
func (t *tx) Generations(ctx context.Context, sources []synchronizer.ClusterSource) ([]int64, error) {
	if t.conn == nil {
		return nil, errTxOver
	}
	clusters := make([]synchronizer.ClusterID, len(sources))
	for i := range sources {
		clusters[i] = sources[i].ClusterID
		if sources[i].Source == "" || !utf8.ValidString(sources[i].Source) || !utf8.ValidString(sources[i].From) {
			return nil, fmt.Errorf("%w: source %q of %s", synchronizer.ErrInvalid, sources[i].Source, sources[i].ClusterID)
		}
	}
	if err := t.makeClusters(ctx, clusters); err != nil {
		return nil, err
	}
	result := make([]int64, len(sources))
	if err := t.giveMissing(ctx, sources, result); err != nil {
		return nil, err
	}
	return result, t.readLatest(ctx, sources, result)
}

// giveMissing gives new sources their generations, and reads those of the others.
func (t *tx) giveMissing(ctx context.Context, sources []synchronizer.ClusterSource, result []int64) error {
	missing, err := t.readSources(ctx, sources, result)
	if err != nil || len(missing) == 0 {
		return err
	}
	var numbers []int32
	for _, i := range missing {
		numbers = append(numbers, t.clusters[sources[i].ClusterID].id)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	// Whoever gives the same source a generation at this moment has the lock.
	generations := map[int32]int64{}
	err = t.query(ctx, "locking generations", "SELECT id, generation FROM clusters WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE", []any{numbers},
		func(rows pgx.Rows) error {
			var cluster int32
			var generation int64
			err := rows.Scan(&cluster, &generation)
			generations[cluster] = generation
			return err
		})
	if err != nil {
		return err
	}
	if missing, err = t.readSources(ctx, sources, result); err != nil || len(missing) == 0 {
		return err
	}
	return t.giveGenerations(ctx, sources, missing, generations, result)
}

// readSources fills in the generations that were given, and says where there is
// none.
func (t *tx) readSources(ctx context.Context, sources []synchronizer.ClusterSource, result []int64) (missing []int, err error) {
	for i := range sources {
		if sources[i].From == "" {
			missing = append(missing, i)
		}
	}
	err = t.findSources(ctx, sources, missing, result, `SELECT k.at, s.source, s.generation, s.used_at < now() - interval '1 hour'
		FROM unnest($1::int[], $2::int[], $3::text[], $4::text[]) k (at, cluster, least, source) JOIN sources s USING (cluster, source)`)
	return slices.DeleteFunc(missing, func(i int) bool { return result[i] != 0 }), err
}

// readLatest fills in those of sources with From.
func (t *tx) readLatest(ctx context.Context, sources []synchronizer.ClusterSource, result []int64) error {
	var wanted []int
	for i := range sources {
		if sources[i].From != "" {
			wanted = append(wanted, i)
		}
	}
	return t.findSources(ctx, sources, wanted, result, `SELECT k.at, s.source, s.generation, s.used_at < now() - interval '1 hour'
		FROM unnest($1::int[], $2::int[], $3::text[], $4::text[]) k (at, cluster, least, source) CROSS JOIN LATERAL
			(SELECT * FROM sources x WHERE x.cluster = k.cluster AND x.source BETWEEN k.least AND k.source ORDER BY x.source DESC LIMIT 1) s`)
}

// heard is a source that has spoken again after an hour.
type heard struct {
	cluster int32
	source  string
}

// findSources fills in what the query finds of the wanted ones.
func (t *tx) findSources(ctx context.Context, sources []synchronizer.ClusterSource, wanted []int, result []int64, text string) error {
	if len(wanted) == 0 {
		return nil
	}
	var at, clusters []int32
	var least, names []string
	for _, i := range wanted {
		s := &sources[i]
		at, clusters = append(at, int32(i)), append(clusters, t.clusters[s.ClusterID].id)
		least, names = append(least, toText(s.From)), append(names, toText(s.Source))
	}
	var again []heard
	err := t.query(ctx, "reading sources", text, []any{at, clusters, least, names}, func(rows pgx.Rows) error {
		var place int32
		var name string
		var generation int64
		var stale bool
		if err := rows.Scan(&place, &name, &generation, &stale); err != nil {
			return err
		}
		result[place] = generation
		if h := (heard{t.clusters[sources[place].ClusterID].id, name}); stale && !slices.Contains(again, h) {
			again = append(again, h)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, h := range again {
		// That one is still heard of keeps it from being forgotten (PruneSources).
		if err := t.exec(ctx, "noting a source", "UPDATE sources SET used_at = now() WHERE cluster = $1 AND source = $2", h.cluster, h.source); err != nil {
			return err
		}
	}
	return nil
}

// giveGenerations gives new sources the next ones of their clusters, in the order
// of the slice. A cluster that was deleted is there again.
func (t *tx) giveGenerations(ctx context.Context, sources []synchronizer.ClusterSource, missing []int, generations map[int32]int64, result []int64) error {
	given := map[synchronizer.ClusterSource]int64{} // a source may stand twice
	var clusters []int32
	var names []string
	var numbers []int64
	last := map[int32]int64{}
	for _, i := range missing {
		if generation, ok := given[sources[i]]; ok {
			result[i] = generation
			continue
		}
		cluster := t.clusters[sources[i].ClusterID].id
		generations[cluster]++
		result[i] = generations[cluster]
		given[sources[i]], last[cluster] = result[i], result[i]
		clusters, names, numbers = append(clusters, cluster), append(names, toText(sources[i].Source)), append(numbers, result[i])
	}
	var raised []int32
	var to []int64
	for _, cluster := range sortedKeys(last) {
		raised, to = append(raised, cluster), append(to, last[cluster])
	}
	return t.send(ctx, []statement{
		{
			"raising generations", "UPDATE clusters c SET generation = t.generation, deleted_at = NULL FROM unnest($1::int[], $2::bigint[]) t (id, generation) WHERE c.id = t.id",
			[]any{raised, to},
			int64(len(raised)),
		},
		{
			"inserting sources", "INSERT INTO sources (cluster, source, generation, used_at) SELECT k.*, now() FROM unnest($1::int[], $2::text[], $3::bigint[]) k",
			[]any{clusters, names, numbers},
			int64(len(names)),
		},
	})
}

// clientColumns are those of the newest connection of a cluster.
var clientColumns = []string{
	"connection_id", "synchronizer_version", "helm_version", "git_version", "cloud_provider", "cluster_uid", "resource_group",
}

// updateClient keeps the connection that was made last, whichever server reported
// last.
var updateClient = func() string {
	var s strings.Builder
	s.WriteString(`UPDATE clusters SET first_seen = least(first_seen, $2), last_seen = greatest(last_seen, $3), connected_at = greatest(connected_at, $4)`)
	for i, column := range clientColumns {
		fmt.Fprintf(&s, ", %[1]s = CASE WHEN connected_at IS NULL OR $4 >= connected_at THEN $%[2]d ELSE %[1]s END", column, 5+i)
	}
	s.WriteString(" WHERE id = $1 AND deleted_at IS NULL")
	return s.String()
}()

// SeeClients implements synchronizer.Tx. A cluster that is not known is created.
func (t *tx) SeeClients(ctx context.Context, seen []synchronizer.ClientSeen) error {
	if t.conn == nil {
		return errTxOver
	}
	type report struct {
		client      synchronizer.ConnectedClient
		first, last time.Time
	}
	reports := map[synchronizer.ClusterID]*report{}
	clusters := make([]synchronizer.ClusterID, len(seen))
	for i := range seen {
		s := &seen[i]
		clusters[i] = s.ClusterID
		r := reports[s.ClusterID]
		if r == nil {
			reports[s.ClusterID] = &report{s.ConnectedClient, s.At, s.At}
			continue
		}
		if s.At.Before(r.first) {
			r.first = s.At
		}
		if s.At.After(r.last) {
			r.last = s.At
		}
		if !s.ConnectionTime.Before(r.client.ConnectionTime) {
			r.client = s.ConnectedClient
		}
	}
	if err := t.makeClusters(ctx, clusters); err != nil {
		return err
	}
	numbers := map[int32]synchronizer.ClusterID{}
	for id := range reports {
		numbers[t.clusters[id].id] = id
	}
	statements := make([]statement, 0, len(numbers))
	for _, number := range sortedKeys(numbers) {
		r := reports[numbers[number]]
		c := &r.client
		args := []any{number, toTime(r.first), toTime(r.last), toTime(c.ConnectionTime)}
		for _, value := range []string{
			c.ConnectionID, c.SynchronizerVersion, c.HelmVersion, c.GitVersion, c.CloudProvider, c.ClusterUID, c.ResourceGroup,
		} {
			args = append(args, pgtype.Text{String: toText(value), Valid: true})
		}
		statements = append(statements, statement{"noting clients", updateClient, args, -1})
	}
	return t.send(ctx, statements)
}

// SeeKinds implements synchronizer.Tx.
func (t *tx) SeeKinds(ctx context.Context, seen []synchronizer.ClusterKind) error {
	if t.conn == nil {
		return errTxOver
	}
	return t.makeKinds(ctx, seen)
}
