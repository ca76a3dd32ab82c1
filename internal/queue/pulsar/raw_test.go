// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"testing"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/queuetest"
	"synchronizer/test/brokers"
)

// keyOfRecorded is the key that a recorded record has in our queue.
func keyOfRecorded(r *synchronizer.Record) string {
	id := synchronizer.ClusterID{Account: r.Property(queue.PropertyAccount), Cluster: r.Property(queue.PropertyCluster)}
	if id == (synchronizer.ClusterID{}) {
		return ""
	}
	return id.String()
}

// TestRawRecords publishes every recorded record, reads it with Pulsar's own client
// and compares it with the recording, field by field.
func TestRawRecords(t *testing.T) {
	p := brokers.SharedPulsar(t)
	config := configOn(t, p)
	q := openQueue(t, config)
	recorded := queuetest.RecordedRecords(t)
	ours := make([]synchronizer.Record, len(recorded))
	for i := range recorded {
		ours[i] = recorded[i].Record
		ours[i].Key = keyOfRecorded(&ours[i])
		if recorded[i].FromServer {
			ours[i].Properties = append(append([]synchronizer.Property{}, ours[i].Properties...),
				synchronizer.Property{Name: queue.PropertyProducerSource, Value: "synchronizer-server"})
		}
	}
	// Not through Out and In by origin: one topic keeps them in order.
	require.NoError(t, q.Publish(bounded(t), synchronizer.Out, ours))

	reader, err := rawClient(t, p).CreateReader(client.ReaderOptions{Topic: config.topic(synchronizer.Out), StartMessageID: client.EarliestMessageID()})
	require.NoError(t, err)
	t.Cleanup(reader.Close)
	fromServer := 0
	byKey := map[string][]client.Message{} // batches keep the order of a key only
	for range ours {
		m, err := reader.Next(bounded(t))
		require.NoError(t, err)
		byKey[m.OrderingKey()+"\x00"+m.Key()] = append(byKey[m.OrderingKey()+"\x00"+m.Key()], m)
	}
	for i := range recorded {
		want := &recorded[i]
		name := ours[i].Key + "\x00" + want.Record.Key
		require.NotEmpty(t, byKey[name], "key and ordering key of %s", want.Scenario)
		m := byKey[name][0]
		byKey[name] = byKey[name][1:]
		properties := m.Properties()
		if want.FromServer {
			fromServer++
			require.Equal(t, queue.ServerProducerKey, m.Key())
			require.Equal(t, "synchronizer-server", properties[queue.PropertyProducerSource])
			delete(properties, queue.PropertyProducerSource)
		} else {
			require.Empty(t, m.Key())
		}
		expected := map[string]string{}
		for _, property := range want.Record.Properties {
			expected[property.Name] = property.Value
		}
		require.Equal(t, expected, properties, "properties of %s, empty ones too", want.Scenario)
		require.Equal(t, string(want.Record.Payload), string(m.Payload()), "payload of %s", want.Scenario)
	}
	require.Positive(t, fromServer)
	require.Less(t, fromServer, len(recorded))
}

// TestStockRecords reads what the field's own server and backend publish: without an
// ordering key, and without our mark.
func TestStockRecords(t *testing.T) {
	p := brokers.SharedPulsar(t)
	config := configOn(t, p)
	q := openQueue(t, config)
	c, err := q.Consume(t.Context(), "stock")
	require.NoError(t, err)
	tail, err := q.Tail(t.Context())
	require.NoError(t, err)
	out, in := rawProducer(t, p, config.topic(synchronizer.Out)), rawProducer(t, p, config.topic(synchronizer.In))
	want := map[string]int{}
	servers := 0
	recorded := queuetest.RecordedRecords(t)
	for i := range recorded {
		r := &recorded[i]
		m := &client.ProducerMessage{Key: r.Record.Key, OrderingKey: r.OrderingKey, Payload: r.Record.Payload, Properties: map[string]string{}}
		for _, property := range r.Record.Properties {
			m.Properties[property.Name] = property.Value
		}
		to := in
		if r.FromServer {
			to = out
			servers++
		}
		to.SendAsync(t.Context(), m, func(_ client.MessageID, _ *client.ProducerMessage, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		want[keyOfRecorded(&r.Record)+" "+string(r.Record.Payload)]++
	}
	require.NoError(t, out.FlushWithCtx(bounded(t)))
	require.NoError(t, in.FlushWithCtx(bounded(t)))
	all := append(readAll(t, c, servers), tailAll(t, tail, len(recorded)-servers)...)
	var before uint64
	for i := range all {
		want[all[i].Key+" "+string(all[i].Payload)]--
		if i > 0 && i < servers {
			require.Greater(t, all[i].Position, before, "positions grow")
		}
		before = all[i].Position
		require.NotEmpty(t, all[i].Partition)
	}
	for what, n := range want {
		require.Zero(t, n, what)
	}
}
