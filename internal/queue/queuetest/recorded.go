// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// Recorded is one record of the system in the field, as it stood on Pulsar.
type Recorded struct {
	Scenario    string
	FromServer  bool // false: the recording's backend published it
	OrderingKey string
	// Record has its properties sorted by name; the key is the field's, not ours.
	Record synchronizer.Record
}

// RecordedRecords are all records of internal/queue/testdata, so that a test can
// publish them through a real broker and compare what its own client reads.
// Payloads are the recorded JSON, byte for byte.
func RecordedRecords(t testing.TB) []Recorded {
	t.Helper()
	f, err := os.Open(filepath.Join(moduleRoot(t), "internal", "queue", "testdata", "records-pulsar.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	var all []Recorded
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var line struct {
			Scenario    string            `json:"scenario"`
			Direction   string            `json:"direction"`
			Key         string            `json:"key"`
			OrderingKey string            `json:"orderingKey"`
			Properties  map[string]string `json:"properties"`
			Payload     json.RawMessage   `json:"payload"`
		}
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &line))
		r := Recorded{
			Scenario: line.Scenario, FromServer: line.Direction == "server->broker", OrderingKey: line.OrderingKey,
			Record: synchronizer.Record{Key: line.Key, Payload: line.Payload},
		}
		for name, value := range line.Properties {
			r.Record.Properties = append(r.Record.Properties, synchronizer.Property{Name: name, Value: value})
		}
		slices.SortFunc(r.Record.Properties, func(a, b synchronizer.Property) int { return strings.Compare(a.Name, b.Name) })
		all = append(all, r)
	}
	require.NoError(t, scanner.Err())
	require.NotEmpty(t, all)
	return all
}

// moduleRoot is the folder of go.mod above the package under test.
func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		above := filepath.Dir(dir)
		require.NotEqual(t, dir, above, "no go.mod above the test")
		dir = above
	}
}
