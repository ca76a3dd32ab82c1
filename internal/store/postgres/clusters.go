// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

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
	err := db.reading(ctx, "reading clusters", func(r pgx.Tx) error {
		places, clusters, err := readClusters(ctx, r, s)
		if err != nil {
			return err
		}
		if err := readKindStatus(ctx, r, s, places, clusters); err != nil {
			return err
		}
		result = clusters
		return nil
	})
	return result, err
}

func readClusters(ctx context.Context, r pgx.Tx, s scope) (map[int32]int, []synchronizer.ClusterStatus, error) {
	w := s.conditions(false)
	rows, err := r.Query(ctx, `SELECT c.id, a.name, c.name, c.connected_at, c.first_seen, c.last_seen, c.`+strings.Join(clientColumns, ", c.")+`
		FROM accounts a JOIN clusters c ON c.account = a.id WHERE true`+w.text.String()+" ORDER BY a.name, c.name", w.args...)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	places := map[int32]int{}
	var clusters []synchronizer.ClusterStatus
	for rows.Next() {
		var c synchronizer.ClusterStatus
		var number int32
		var connected, first, last pgtype.Timestamptz
		hello := &c.Client.Hello
		texts := []*string{
			&c.Account, &c.Cluster, &c.Client.ConnectionID, &hello.SynchronizerVersion, &hello.HelmVersion, &hello.GitVersion,
			&hello.CloudProvider, &hello.ClusterUID, &hello.ResourceGroup,
		}
		into := []any{&number, texts[0], texts[1], &connected, &first, &last}
		for _, text := range texts[2:] {
			into = append(into, text)
		}
		if err := rows.Scan(into...); err != nil {
			return nil, nil, err
		}
		for _, text := range texts {
			*text = fromText(*text)
		}
		hello.ClusterID = c.ClusterID
		c.Client.ConnectionTime, c.FirstSeen, c.LastSeen = fromTime(connected), fromTime(first), fromTime(last)
		places[number] = len(clusters)
		clusters = append(clusters, c)
	}
	return places, clusters, rows.Err()
}

func readKindStatus(ctx context.Context, r pgx.Tx, s scope, places map[int32]int, clusters []synchronizer.ClusterStatus) error {
	w := s.conditions(false)
	rows, err := r.Query(ctx, `SELECT k.cluster, k.grp, k.version, k.resource, k.objects, k.last_change
		FROM accounts a JOIN clusters c ON c.account = a.id JOIN kinds k ON k.cluster = c.id WHERE true`+w.text.String()+
		" ORDER BY k.cluster, k.grp, k.version, k.resource", w.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var k synchronizer.KindStatus
		var number int32
		var changed pgtype.Timestamptz
		if err := rows.Scan(&number, &k.Kind.Group, &k.Kind.Version, &k.Kind.Resource, &k.Objects, &changed); err != nil {
			return err
		}
		k.Kind = synchronizer.Kind{Group: fromText(k.Kind.Group), Version: fromText(k.Kind.Version), Resource: fromText(k.Kind.Resource)}
		k.LastChange = fromTime(changed)
		c := &clusters[places[number]]
		c.Kinds = append(c.Kinds, k)
	}
	return rows.Err()
}
