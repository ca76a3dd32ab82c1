// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// Backend is a store under test.
type Backend interface {
	synchronizer.Store
	synchronizer.Reader
	synchronizer.Inventory
	synchronizer.Credentials
	synchronizer.Keyring
	synchronizer.Feed
	synchronizer.Sets
	synchronizer.Events
	synchronizer.Keeper
	synchronizer.Remover
	synchronizer.Inspector

	// Reopen gives the database as it would be found if the process had been
	// killed at this moment, without Close. The backend itself may be unusable
	// afterwards; both are closed when the test ends.
	Reopen(t *testing.T) Backend
}

// tester is a test, or one case of a property.
type tester interface {
	require.TestingT
	Helper()
	Context() context.Context
}

// Run runs the suite; open gives an empty backend that is closed when the test
// ends.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Backend)
	}{
		{"ExactBytes", exactBytes},
		{"RowFields", rowFields},
		{"Tombstones", tombstones},
		{"Touched", touched},
		{"BodiesOnlyWhereAsked", bodiesOnlyWhereAsked},
		{"OwnWrites", ownWrites},
		{"LargeBatch", largeBatch},
		{"Empty", empty},
		{"Generations", generations},
		{"LatestSources", latestSources},
		{"Accounts", accounts},
		{"InvalidKeys", invalidKeys},
		{"Rollback", rollback},
		{"Panic", panics},
		{"Cancelled", cancelled},
		{"NoLostUpdate", noLostUpdate},
		{"CloseWaits", closeWaits},
		{"Closed", closed},
		{"Reopen", reopen},
		{"Clients", clients},
		{"KindNumbers", kindNumbers},
		{"Credentials", credentials},
		{"Keyring", keyring},
		{"Filters", filters},
		{"Labels", labels},
		{"LabelsFollow", labelsFollow},
		{"BadQueries", badQueries},
		{"Pages", pages},
		{"PagesWhileWriting", pagesWhileWriting},
		{"Walk", walkIsSet},
		{"Known", known},
		{"KnownWhileWriting", knownWhileWriting},
		{"KindsSeen", kindsSeen},
		{"Feed", feed},
		{"FeedSkipsNothing", feedSkipsNothing},
		{"Sets", sets},
		{"Digests", digests},
		{"Search", search},
		{"SearchWide", searchWide},
		{"Events", events},
		{"EventIdents", eventIdents},
		{"EventsExpire", eventsExpire},
		{"Purge", purge},
		{"PruneSources", pruneSources},
		{"Unseen", unseen},
		{"DeleteCluster", deleteCluster},
		{"DeleteAccount", deleteAccount},
		{"Stats", stats},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// noon is when everything in the suite happens.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC)

var (
	pods        = synchronizer.Kind{Version: "v1", Resource: "pods"}
	deployments = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}
	prod        = synchronizer.ClusterID{Account: "acme", Cluster: "prod"}
)

func key(id synchronizer.ClusterID, kind synchronizer.Kind, namespace, name string) synchronizer.ObjectKey {
	return synchronizer.ObjectKey{ClusterID: id, Kind: kind, Namespace: namespace, Name: name}
}

// live is a row that carries a small object with labels.
func live(key synchronizer.ObjectKey, seq uint64, labels map[string]string) synchronizer.Row {
	return synchronizer.Row{
		Key: key, UID: "uid-" + key.Name, ResourceVersion: fmt.Sprint(seq), Checksum: fmt.Sprintf("%064x", seq),
		Order: synchronizer.Order{Generation: 1, Seq: seq}, UpdatedAt: noon, Body: body(key, labels),
	}
}

func body(key synchronizer.ObjectKey, labels map[string]string) []byte {
	text, err := json.Marshal(map[string]any{
		"apiVersion": key.Kind.GroupVersion(),
		"metadata":   map[string]any{"name": key.Name, "namespace": key.Namespace, "labels": labels},
	})
	if err != nil {
		panic(err) // texts can always be written
	}
	return text
}

func tombstone(key synchronizer.ObjectKey, seq uint64) synchronizer.Row {
	row := live(key, seq, nil)
	row.Body, row.DeletedAt = nil, noon
	return row
}

// write puts rows as the ingester does: reads them first, then writes.
func write(t tester, ctx context.Context, store synchronizer.Store, rows ...synchronizer.Row) {
	t.Helper()
	require.NoError(t, store.Update(ctx, func(tx synchronizer.Tx) error { return put(ctx, tx, rows) }))
}

func put(ctx context.Context, tx synchronizer.Tx, rows []synchronizer.Row) error {
	keys := make([]synchronizer.ObjectKey, len(rows))
	for i := range rows {
		keys[i] = rows[i].Key
	}
	if _, err := tx.Rows(ctx, keys, make([]bool, len(keys))); err != nil {
		return err
	}
	return tx.Write(ctx, rows)
}

// readAll reads every page of a query and returns the keys in order.
func readAll(t tester, ctx context.Context, r synchronizer.Reader, q synchronizer.ObjectQuery) []synchronizer.ObjectKey {
	t.Helper()
	keys := []synchronizer.ObjectKey{}
	for {
		page, err := r.Objects(ctx, q)
		require.NoError(t, err)
		for i := range page.Rows {
			keys = append(keys, page.Rows[i].Key)
		}
		if page.Continue == "" {
			return keys
		}
		require.NotEqual(t, q.Continue, page.Continue, "the token does not move")
		q.Continue = page.Continue
	}
}

// names is readAll for people: the names only.
func names(t tester, ctx context.Context, r synchronizer.Reader, q synchronizer.ObjectQuery) []string {
	t.Helper()
	result := []string{}
	for _, key := range readAll(t, ctx, r, q) {
		result = append(result, key.Name)
	}
	return result
}
