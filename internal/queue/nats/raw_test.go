// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"strings"
	"testing"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/queuetest"
	"synchronizer/test/brokers"
)

// TestRecordsOnTheBroker reads with the library alone: properties are headers under
// their own names, empty ones too, the payload is what was published, and each key
// has a subject of its own.
func TestRecordsOnTheBroker(t *testing.T) {
	server := brokers.SharedNATS(t)
	config := tcpConfig(t, server)
	q := openTCP(t, config)
	defer shut(t, q)
	raw, err := natsgo.Connect(server.URL)
	require.NoError(t, err)
	defer raw.Close()
	read, err := raw.SubscribeSync(config.Prefix + ".out.>")
	require.NoError(t, err)
	require.NoError(t, raw.Flush())

	var records []synchronizer.Record
	for _, recorded := range queuetest.RecordedRecords(t) {
		r := recorded.Record
		r.Key = r.Property(queue.PropertyAccount) + "/" + r.Property(queue.PropertyCluster)
		records = append(records, r)
	}
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, records))

	subjects, keys := map[string]string{}, map[string]string{}
	for i := range records {
		r := &records[i]
		m, err := read.NextMsgWithContext(t.Context())
		require.NoError(t, err)
		require.Equal(t, string(r.Payload), string(m.Data))
		headers := map[string]string{}
		for name, values := range m.Header {
			require.Len(t, values, 1)
			headers[name] = values[0]
		}
		properties := map[string]string{}
		for _, p := range r.Properties {
			properties[p.Name] = p.Value
		}
		require.Equal(t, properties, headers)

		parts := strings.Split(m.Subject, ".")
		require.Len(t, parts, 4, "<prefix>.out.<p>.<token>")
		if known, ok := subjects[r.Key]; ok {
			require.Equal(t, known, m.Subject)
		}
		if known, ok := keys[m.Subject]; ok {
			require.Equal(t, known, r.Key)
		}
		subjects[r.Key], keys[m.Subject] = m.Subject, r.Key
	}
	require.Greater(t, len(subjects), 1)
}
