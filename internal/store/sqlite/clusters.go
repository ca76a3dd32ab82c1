// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"synchronizer"
)

// Clusters implements synchronizer.Reader. It reads a row per cluster and kind,
// not the objects.
func (db *DB) Clusters(ctx context.Context, id synchronizer.ClusterID) ([]synchronizer.ClusterStatus, error) {
	s := scope{account: id.Account}
	if id.Cluster != "" {
		s.clusters = []string{id.Cluster}
	}
	var result []synchronizer.ClusterStatus
	err := db.reading(ctx, func(r *sql.Tx) error {
		numbers, clusters, err := readClusters(ctx, r, s)
		if err != nil {
			return db.failure("reading clusters", contextError(ctx, err))
		}
		if err := readKindStatus(ctx, r, s, numbers, clusters); err != nil {
			return db.failure("reading clusters", contextError(ctx, err))
		}
		result = clusters
		return nil
	})
	return result, err
}

func readClusters(ctx context.Context, r *sql.Tx, s scope) (map[int64]int, []synchronizer.ClusterStatus, error) {
	conditions, args := s.conditions(false)
	rows, err := r.QueryContext(ctx, `SELECT c.id, c.account, c.name, c.connected_at, c.first_seen, c.last_seen, c.`+
		strings.Join(clientColumns, ", c.")+" FROM clusters c WHERE true"+conditions+" ORDER BY c.account, c.name", args...)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	places := map[int64]int{}
	var clusters []synchronizer.ClusterStatus
	for rows.Next() {
		var c synchronizer.ClusterStatus
		var number, connected, first, last int64
		hello := &c.Client.Hello
		if err := rows.Scan(&number, &c.Account, &c.Cluster, &connected, &first, &last,
			&c.Client.ConnectionID, &hello.SynchronizerVersion, &hello.HelmVersion, &hello.GitVersion,
			&hello.CloudProvider, &hello.ClusterUID, &hello.ResourceGroup); err != nil {
			return nil, nil, err
		}
		hello.ClusterID = c.ClusterID
		c.Client.ConnectionTime = fromMicros(connected)
		c.FirstSeen, c.LastSeen = fromMicros(first), fromMicros(last)
		places[number] = len(clusters)
		clusters = append(clusters, c)
	}
	return places, clusters, rows.Err()
}

func readKindStatus(ctx context.Context, r *sql.Tx, s scope, places map[int64]int, clusters []synchronizer.ClusterStatus) error {
	conditions, args := s.conditions(false)
	rows, err := r.QueryContext(ctx, `SELECT k.cluster, k.grp, k.version, k.resource, k.objects, k.last_change
		FROM clusters c CROSS JOIN kinds k ON k.cluster = c.id WHERE true`+conditions+
		" ORDER BY k.cluster, k.grp, k.version, k.resource", args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var k synchronizer.KindStatus
		var number, changed int64
		if err := rows.Scan(&number, &k.Kind.Group, &k.Kind.Version, &k.Kind.Resource, &k.Objects, &changed); err != nil {
			return err
		}
		k.LastChange = fromMicros(changed)
		c := &clusters[places[number]]
		c.Kinds = append(c.Kinds, k)
	}
	return rows.Err()
}
