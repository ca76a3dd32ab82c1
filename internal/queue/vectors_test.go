// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// recorded is one line of testdata/records-pulsar.jsonl: what the system in the
// field said on Pulsar.
type recorded struct {
	Scenario   string            `json:"scenario"`
	Direction  string            `json:"direction"`
	Key        string            `json:"key"`
	Properties map[string]string `json:"properties"`
	Payload    json.RawMessage   `json:"payload"`
}

func (l *recorded) record() synchronizer.Record {
	r := synchronizer.Record{Key: l.Key, Payload: l.Payload}
	for name, value := range l.Properties {
		r.Properties = append(r.Properties, synchronizer.Property{Name: name, Value: value})
	}
	sort.Slice(r.Properties, func(i, j int) bool { return r.Properties[i].Name < r.Properties[j].Name })
	return r
}

func readRecorded(t testing.TB) []recorded {
	t.Helper()
	f, err := os.Open("testdata/records-pulsar.jsonl")
	require.NoError(t, err)
	defer f.Close()
	var lines []recorded
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var line recorded
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &line))
		lines = append(lines, line)
	}
	require.NoError(t, scanner.Err())
	return lines
}

// TestRecordsOfServers decodes every record of the field's server and writes it
// again in the field's encoding.
func TestRecordsOfServers(t *testing.T) {
	count := 0
	for _, line := range readRecorded(t) {
		if line.Direction != "server->broker" {
			continue
		}
		count++
		r := line.record()
		require.True(t, FromServer(&r))
		m, err := Decode(&r)
		require.NoError(t, err, line.Scenario)
		require.Equal(t, line.Properties[PropertyEvent], m.Event.String())

		encoder := Encoder{Encoding: Field, Producer: Server}
		again, err := encoder.Encode(&m, Extra{})
		require.NoError(t, err, line.Scenario)
		require.True(t, FromServer(&again))
		require.JSONEq(t, string(line.Payload), string(again.Payload), line.Scenario)
		require.Equal(t, compacted(t, line.Payload), string(again.Payload), "key order of %s", line.Scenario)

		require.Equal(t, keyOf(line.Properties), again.Key, line.Scenario)
		properties := propertiesOf(t, &again)
		require.Equal(t, "synchronizer-server", properties[PropertyProducerSource])
		delete(properties, PropertyProducerSource)
		require.Contains(t, properties, PropertyTimestamp)
		properties[PropertyTimestamp] = line.Properties[PropertyTimestamp]
		require.Equal(t, line.Properties, properties, line.Scenario)

		// The same message in the other encoding says the same.
		encoder.Encoding = Compact
		compact, err := encoder.Encode(&m, Extra{})
		require.NoError(t, err)
		same, err := Decode(&compact)
		require.NoError(t, err)
		if len(m.Body) == 0 {
			m.Body, same.Body = nil, nil
		}
		require.Equal(t, m, same, line.Scenario)
	}
	require.Equal(t, 144, count)
}

// keyOf is our key of a record: what it is about, or none.
func keyOf(properties map[string]string) string {
	if properties[PropertyAccount] == "" {
		return ""
	}
	return properties[PropertyAccount] + "/" + properties[PropertyCluster]
}

// propertiesOf are a record's properties, each of which stands once; those
// without a value are there.
func propertiesOf(t *testing.T, r *synchronizer.Record) map[string]string {
	t.Helper()
	properties := map[string]string{}
	for _, p := range r.Properties {
		properties[p.Name] = p.Value
	}
	require.Len(t, properties, len(r.Properties), "names are unique")
	return properties
}

// TestRecordsWithoutEmptyProperties: Kafka leaves out properties without a value;
// the message is the same.
func TestRecordsWithoutEmptyProperties(t *testing.T) {
	fewer := 0
	for _, line := range readRecorded(t) {
		all := line.record()
		some := all
		some.Properties = nil
		for _, p := range all.Properties {
			if p.Value != "" {
				some.Properties = append(some.Properties, p)
			}
		}
		if len(some.Properties) == len(all.Properties) {
			continue
		}
		fewer++
		want, wantErr := Decode(&all)
		got, err := Decode(&some)
		require.Equal(t, wantErr == nil, err == nil, "%s: %v, %v", line.Scenario, wantErr, err)
		require.Equal(t, want, got, line.Scenario)
	}
	require.Equal(t, 94, fewer)
}

// TestRecordsOfOurBackend: what an ingester of ours publishes is, field by field,
// what the recording's backend published.
func TestRecordsOfOurBackend(t *testing.T) {
	count := 0
	for _, line := range readRecorded(t) {
		if line.Direction != "test->broker" {
			continue
		}
		r := line.record()
		m, err := Decode(&r)
		_, stamped := line.Properties[PropertyTimestamp]
		_, kind := line.Properties[PropertyVersion]
		// The others lack on purpose what a backend says.
		if err != nil || m.Event == synchronizer.EventUnknown || !stamped || m.Event.AboutObject() != kind {
			continue
		}
		count++
		encoder := Encoder{Encoding: Field}
		again, err := encoder.Encode(&m, Extra{})
		require.NoError(t, err, line.Scenario)
		require.False(t, FromServer(&again))
		require.Equal(t, keyOf(line.Properties), again.Key)
		require.JSONEq(t, string(line.Payload), string(again.Payload), line.Scenario)
		properties := propertiesOf(t, &again)
		properties[PropertyTimestamp] = line.Properties[PropertyTimestamp]
		require.Equal(t, line.Properties, properties, line.Scenario)
	}
	require.Equal(t, 67, count)
}

// TestRecordsOfBackends decodes what the recording's backend published, the
// faulty records among it.
func TestRecordsOfBackends(t *testing.T) {
	outcome := map[string]int{}
	for _, line := range readRecorded(t) {
		if line.Direction != "test->broker" {
			continue
		}
		r := line.record()
		require.False(t, FromServer(&r))
		m, err := Decode(&r)
		switch {
		case err != nil:
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
			outcome["error: "+string(Reason(err))]++
			t.Logf("%s: %v", line.Scenario, err)
		case m.Event == synchronizer.EventUnknown:
			outcome["unknown event"]++
		default:
			outcome["ok"]++
		}
	}
	require.Equal(t, map[string]int{"ok": 73, "unknown event": 2, "error: malformed": 2, "error: identity_mismatch": 1}, outcome)
}

// compacted is the recorded payload without white space, with the escapes of
// the wire.
func compacted(t *testing.T, payload []byte) string {
	t.Helper()
	var buf, escaped bytes.Buffer
	require.NoError(t, json.Compact(&buf, payload))
	json.HTMLEscape(&escaped, buf.Bytes())
	return escaped.String()
}
