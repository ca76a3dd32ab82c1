// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/queuetest"
	"synchronizer/test/brokers"
)

// readRaw reads what stands in a topic with the library alone.
func readRaw(t *testing.T, address, topic string, n int) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(topic))
	require.NoError(t, err)
	defer client.Close()
	ctx := limited(t)
	var records []*kgo.Record
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		records = append(records, fetches.Records()...)
	}
	require.Len(t, records, n)
	return records
}

func headersOf(r *kgo.Record) map[string]string {
	headers := map[string]string{}
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	return headers
}

// present are the properties with a value.
func present(r *synchronizer.Record) map[string]string {
	properties := map[string]string{}
	for _, p := range r.Properties {
		if p.Value != "" {
			properties[p.Name] = p.Value
		}
	}
	return properties
}

// TestRecordsOnTheBroker: key, headers and value stand on the broker exactly as
// the encoder made them; empty values are left out.
func TestRecordsOnTheBroker(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	config.Partitions = 1 // one order
	q := mustOpen(t, config)

	encoder := queue.Encoder{Encoding: queue.Field, Producer: queue.Server}
	var records []synchronizer.Record
	for _, recorded := range queuetest.RecordedRecords(t) {
		records = append(records, recorded.Record)
	}
	m := synchronizer.Message{
		Event: synchronizer.EventPut, Depth: 1, MsgID: "1", Body: []byte(`{"kind":"Namespace"}`),
		ClusterID: synchronizer.ClusterID{Account: "account", Cluster: "häß 🚀"},
		Kind:      synchronizer.Kind{Version: "v1", Resource: "namespaces"}, Name: "n",
	}
	encoded, err := encoder.Encode(&m, queue.Extra{Link: "v1"})
	require.NoError(t, err)
	records = append(records, encoded,
		synchronizer.Record{Payload: []byte("no key")},
		synchronizer.Record{Key: "no payload", Properties: []synchronizer.Property{{Name: "bytes", Value: "\x00\xff"}}})
	require.NoError(t, q.Publish(limited(t), synchronizer.Out, records))

	empty := 0
	for i, raw := range readRaw(t, k.Plain, config.OutTopic, len(records)) {
		require.Equal(t, records[i].Key, string(raw.Key))
		require.Equal(t, records[i].Key == "", raw.Key == nil, "no key is null")
		require.NotNil(t, raw.Value, "null would be a tombstone")
		require.Equal(t, string(records[i].Payload), string(raw.Value))
		require.Equal(t, present(&records[i]), headersOf(raw))
		empty += len(records[i].Properties) - len(raw.Headers)
	}
	require.Positive(t, empty, "some values were empty")
}

// TestPartitionIsKafkasOwn: a key has the partition that every other client of
// Kafka computes for it (murmur2).
func TestPartitionIsKafkasOwn(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	config.Partitions = 16
	q := mustOpen(t, config)
	// From org.apache.kafka.common.utils.Utils: toPositive(murmur2(key)) % 16.
	want := map[string]int32{}
	var records []synchronizer.Record
	for i := range 100 {
		key := "account/cluster-" + strings.Repeat("x", i)
		want[key] = int32(murmur2([]byte(key))&0x7fffffff) % 16
		records = append(records, synchronizer.Record{Key: key, Payload: []byte("x")})
	}
	require.NoError(t, q.Publish(limited(t), synchronizer.Out, records))
	raw := readRaw(t, k.Plain, config.OutTopic, len(records))
	for _, r := range raw {
		require.Equal(t, want[string(r.Key)], r.Partition, "%s", r.Key)
	}
	require.True(t, slices.ContainsFunc(raw, func(r *kgo.Record) bool { return r.Partition != raw[0].Partition }))
}

// TestMurmur2 pins the hash to values that Kafka's own tests use.
func TestMurmur2(t *testing.T) {
	for text, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
	} {
		require.Equal(t, want, int32(murmur2([]byte(text))), text)
	}
}

// murmur2 is the hash as it is published, with Kafka's seed.
func murmur2(b []byte) uint32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		k *= m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	for i := len(b) - 1; i >= 0; i-- {
		h ^= uint32(b[i]) << (8 * i)
	}
	if len(b) > 0 {
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// readRawUntil reads a topic until the record with this number.
func readRawUntil(t *testing.T, address, topic, last string) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(topic))
	require.NoError(t, err)
	defer client.Close()
	ctx := limited(t)
	var records []*kgo.Record
	for len(records) == 0 || headersOf(records[len(records)-1])["n"] != last {
		fetches := client.PollRecords(ctx, 1)
		require.NoError(t, fetches.Err())
		records = append(records, fetches.Records()...)
	}
	return records
}
