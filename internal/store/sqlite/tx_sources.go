// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"synchronizer"
)

var (
	selectSources = newMultiRow("reading sources", "SELECT k.column1, s.generation, s.used_at FROM (VALUES ", 3,
		") k CROSS JOIN sources s ON s.cluster = k.column2 AND s.source = k.column3", 100, 25, 5)
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
	for i := range sources {
		cluster, err := t.cluster(ctx, sources[i].ClusterID)
		if err != nil {
			return nil, err
		}
		if sources[i].Source == "" || !utf8.ValidString(sources[i].Source) {
			return nil, fmt.Errorf("%w: source %q of %s", synchronizer.ErrInvalid, sources[i].Source, sources[i].ClusterID)
		}
		clusters[i] = cluster
		values = append(values, int64(i), cluster, sources[i].Source)
	}
	now := micros(time.Now())
	var stale []int
	err := selectSources.query(ctx, t.writer, values, func(rows *sql.Rows) error {
		var at int
		var generation, used int64
		if err := rows.Scan(&at, &generation, &used); err != nil {
			return err
		}
		result[at] = generation
		if now-used > time.Hour.Microseconds() {
			stale = append(stale, at)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, i := range stale {
		// That one is still heard of keeps it from being forgotten (PruneSources).
		if err := t.writer.exec(ctx, "noting a source", "UPDATE sources SET used_at = ? WHERE cluster = ? AND source = ?",
			now, clusters[i], sources[i].Source); err != nil {
			return nil, err
		}
	}

	var inserts []any
	given := map[synchronizer.ClusterSource]int64{} // a source may stand twice
	for i := range sources {
		if result[i] != 0 {
			continue
		}
		if generation, ok := given[sources[i]]; ok {
			result[i] = generation
			continue
		}
		if err := t.writer.exec(ctx, "raising a generation",
			"UPDATE clusters SET generation = generation + 1, deleted_at = 0 WHERE id = ?", clusters[i]); err != nil {
			return nil, err
		}
		generation, err := t.number(ctx, "reading a generation", "SELECT generation FROM clusters WHERE id = ?", clusters[i])
		if err != nil {
			return nil, err
		}
		result[i], given[sources[i]] = generation, generation
		inserts = append(inserts, clusters[i], sources[i].Source, generation, now)
	}
	if err := insertSources.exec(ctx, t.writer, inserts); err != nil {
		return nil, err
	}
	return result, nil
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
