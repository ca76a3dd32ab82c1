// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/store/sqlite"
)

// The commands of an administrator, on the database of a data directory.
func TestStoreCommands(t *testing.T) {
	p := newProgram(t)
	code, _, stderr := p.run("store", "stats", "--data-dir", "data")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "there is no data/synchronizer.db; name another folder with --data-dir")
	require.NoFileExists(t, filepath.Join(p.dir, "data", "synchronizer.db"))

	stdout, _ := p.ok("store", "migrate", "--data-dir", "data")
	require.Regexp(t, `^data/synchronizer.db has schema version \d+.\n$`, stdout)
	db, err := sqlite.Open(t.Context(), filepath.Join(p.dir, "data", "synchronizer.db"))
	require.NoError(t, err)
	key := synchronizer.ObjectKey{
		ClusterID: synchronizer.ClusterID{Account: "acme", Cluster: "old"}, Kind: synchronizer.Kind{Version: "v1", Resource: "pods"}, Namespace: "n", Name: "web",
	}
	require.NoError(t, db.Update(t.Context(), func(tx synchronizer.Tx) error {
		return tx.Write(t.Context(), []synchronizer.Row{{
			Key: key, Order: synchronizer.Order{Generation: 1, Seq: 1}, UpdatedAt: time.Now(), Body: []byte(`{"metadata":{"labels":{"a":"b"}}}`),
		}})
	}))
	require.NoError(t, db.Close())

	stdout, _ = p.ok("store", "check", "--data-dir", "data")
	require.Equal(t, "Everything agrees.\n", stdout)
	stdout, _ = p.ok("store", "stats", "--data-dir", "data")
	require.Regexp(t, `(?m)^Objects +1$`, stdout)

	code, _, stderr = p.run("clusters", "delete", "acme", "old", "--data-dir", "data")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "add --yes")
	stdout, _ = p.ok("clusters", "delete", "acme", "old", "--data-dir", "data", "--yes")
	require.Equal(t, "acme/old is deleted.\n", stdout)
	code, _, stderr = p.run("clusters", "delete", "acme", "old", "--data-dir", "data", "--yes")
	require.Equal(t, 1, code, stderr)
	stdout, _ = p.ok("store", "stats", "--data-dir", "data", "-o", "json")
	var stats struct{ Objects, SchemaVersion int64 }
	require.NoError(t, json.Unmarshal([]byte(stdout), &stats))
	require.Zero(t, stats.Objects)
	require.Positive(t, stats.SchemaVersion)
}
