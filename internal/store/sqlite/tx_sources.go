// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"synchronizer"
)

var (
	selectSources = newMultiRow("reading sources", "SELECT k.column1, s.source, s.generation, s.used_at FROM (VALUES ", 3,
		") k CROSS JOIN sources s ON s.cluster = k.column2 AND s.source = k.column3", 100, 25, 5)
	selectLatest = newMultiRow("reading sources", `SELECT k.column1, s.source, s.generation, s.used_at FROM (VALUES `, 4,
		`) k CROSS JOIN sources s ON s.cluster = k.column2 AND s.source =
		(SELECT max(x.source) FROM sources x WHERE x.cluster = k.column2 AND x.source BETWEEN k.column3 AND k.column4)`, 100, 25, 5)
	insertSources = newMultiRow("inserting sources", "INSERT INTO sources (cluster, source, generation, used_at) VALUES ", 4, "", 25, 5)
	upsertClients = newMultiRow("noting clients", `INSERT INTO clusters (account, name, first_seen, last_seen, connected_at, `+
		strings.Join(clientColumns, ", ")+") VALUES ", 5+len(clientColumns), clientConflict(), 25, 5)
)

// Generations implements synchronizer.Tx.
func (t *tx) Generations(ctx context.Context, sources []synchronizer.ClusterSource) ([]int64, error) {
	if t.writer == nil {
		return nil, errTxOver
	}
	result := make([]int64, len(sources))
	clusters := make([]int64, len(sources))
	values := make([]any, 0, 3*len(sources))
	var latest []any
	for i := range sources {
		cluster, err := t.cluster(ctx, sources[i].ClusterID)
		if err != nil {
			return nil, err
		}
		if sources[i].Source == "" || !utf8.ValidString(sources[i].Source) || !utf8.ValidString(sources[i].From) {
			return nil, fmt.Errorf("%w: source %q of %s", synchronizer.ErrInvalid, sources[i].Source, sources[i].ClusterID)
		}
		clusters[i] = cluster
		if sources[i].From == "" {
			values = append(values, int64(i), cluster, sources[i].Source)
		} else {
			latest = append(latest, int64(i), cluster, sources[i].From, sources[i].Source)
		}
	}
	now := micros(time.Now())
	if err := t.readSources(ctx, selectSources, values, clusters, now, result); err != nil {
		return nil, err
	}
	if err := t.giveGenerations(ctx, sources, clusters, now, result); err != nil {
		return nil, err
	}
	return result, t.readSources(ctx, selectLatest, latest, clusters, now, result)
}

// heard is a source that has spoken again after an hour.
type heard struct {
	cluster int64
	source  string
}

// readSources fills in the generations that were given.
func (t *tx) readSources(ctx context.Context, query *multiRow, values []any, clusters []int64, now int64, result []int64) error {
	var again []heard
	err := query.query(ctx, t.writer, values, func(rows *sql.Rows) error {
		var at int
		var source string
		var generation, used int64
		if err := rows.Scan(&at, &source, &generation, &used); err != nil {
			return err
		}
		result[at] = generation
		if h := (heard{clusters[at], source}); now-used > time.Hour.Microseconds() && !slices.Contains(again, h) {
			again = append(again, h)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, h := range again {
		// That one is still heard of keeps it from being forgotten (PruneSources).
		if err := t.writer.exec(ctx, "noting a source", "UPDATE sources SET used_at = ? WHERE cluster = ? AND source = ?",
			now, h.cluster, h.source); err != nil {
			return err
		}
	}
	return nil
}

// giveGenerations gives new sources the next ones of their clusters, in the order
// of the slice. A cluster that was deleted is there again.
func (t *tx) giveGenerations(ctx context.Context, sources []synchronizer.ClusterSource, clusters []int64, now int64, result []int64) error {
	var inserts []any
	given := map[synchronizer.ClusterSource]int64{} // a source may stand twice
	for i := range sources {
		if result[i] != 0 || sources[i].From != "" {
			continue
		}
		if generation, ok := given[sources[i]]; ok {
			result[i] = generation
			continue
		}
		if err := t.writer.exec(ctx, "raising a generation",
			"UPDATE clusters SET generation = generation + 1, deleted_at = 0 WHERE id = ?", clusters[i]); err != nil {
			return err
		}
		generation, err := t.number(ctx, "reading a generation", "SELECT generation FROM clusters WHERE id = ?", clusters[i])
		if err != nil {
			return err
		}
		result[i], given[sources[i]] = generation, generation
		inserts = append(inserts, clusters[i], sources[i].Source, generation, now)
	}
	return insertSources.exec(ctx, t.writer, inserts)
}

// clientColumns are those of the newest connection of a cluster.
var clientColumns = []string{
	"connection_id", "synchronizer_version", "helm_version", "git_version", "cloud_provider", "cluster_uid", "resource_group",
}

// clientConflict says what becomes of a cluster that is there: the connection
// that was made last is kept, whichever server reported last.
func clientConflict() string {
	var s strings.Builder
	s.WriteString(` ON CONFLICT (account, name) DO UPDATE SET
		first_seen = CASE WHEN first_seen = 0 OR excluded.first_seen < first_seen THEN excluded.first_seen ELSE first_seen END,
		last_seen = max(last_seen, excluded.last_seen), connected_at = max(connected_at, excluded.connected_at)`)
	for _, column := range clientColumns {
		fmt.Fprintf(&s, ", %[1]s = CASE WHEN excluded.connected_at >= connected_at THEN excluded.%[1]s ELSE %[1]s END", column)
	}
	s.WriteString(" WHERE deleted_at = 0")
	return s.String()
}

// SeeClients implements synchronizer.Tx. A cluster that is not known is created.
func (t *tx) SeeClients(ctx context.Context, seen []synchronizer.ClientSeen) error {
	if t.writer == nil {
		return errTxOver
	}
	values := make([]any, 0, len(seen)*upsertClients.width)
	for i := range seen {
		c := &seen[i]
		if err := c.ClusterID.Validate(); err != nil {
			return err
		}
		values = append(values, c.Account, c.Cluster, micros(c.At), micros(c.At), micros(c.ConnectionTime),
			c.ConnectionID, c.SynchronizerVersion, c.HelmVersion, c.GitVersion, c.CloudProvider, c.ClusterUID, c.ResourceGroup)
	}
	return upsertClients.exec(ctx, t.writer, values)
}

// SeeKinds implements synchronizer.Tx.
func (t *tx) SeeKinds(ctx context.Context, seen []synchronizer.ClusterKind) error {
	if t.writer == nil {
		return errTxOver
	}
	for i := range seen {
		if _, err := t.makeKind(ctx, seen[i]); err != nil {
			return err
		}
	}
	return nil
}
