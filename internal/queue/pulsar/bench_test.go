// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"bytes"
	"fmt"
	"testing"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/test/brokers"
)

const (
	benchPayload = 2048
	benchBatch   = 500
	benchKeys    = 16
)

// BenchmarkQueue carries records of 2 KB through the adapter: one producer, one
// acknowledging consumer, 500 records per call.
func BenchmarkQueue(b *testing.B) {
	config := benchConfig(b)
	q, err := Open(b.Context(), config)
	require.NoError(b, err)
	c, err := q.Consume(b.Context(), "bench")
	require.NoError(b, err)
	records := make([]synchronizer.Record, benchBatch)
	for i := range records {
		records[i] = synchronizer.Record{
			Key: fmt.Sprintf("account/cluster-%d", i%benchKeys), Payload: benchBody(),
			Properties: benchProperties(),
		}
	}
	b.SetBytes(benchPayload)
	b.ResetTimer()
	published := make(chan error, 1)
	go func() {
		for left := b.N; left > 0; left -= benchBatch {
			if err := q.Publish(b.Context(), synchronizer.Out, records[:min(left, benchBatch)]); err != nil {
				published <- err
				return
			}
		}
		published <- nil
	}()
	for n := 0; n < b.N; {
		batch, err := c.Next(b.Context(), benchBatch, 8<<20)
		require.NoError(b, err)
		n += len(batch.Records)
		require.NoError(b, batch.Ack(b.Context()))
	}
	require.NoError(b, <-published)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.StopTimer()
	require.NoError(b, q.Close(b.Context()))
}

// BenchmarkLibrary does the same with the library alone, as its documentation
// shows it: batches by key, Key_Shared, each message acknowledged.
func BenchmarkLibrary(b *testing.B) {
	config := benchConfig(b)
	c, err := newClient(&config, nil, operationTimeout)
	require.NoError(b, err)
	defer c.Close()
	p, err := c.CreateProducer(client.ProducerOptions{
		Topic: config.topic(synchronizer.Out), BatcherBuilderType: client.KeyBasedBatchBuilder,
		CompressionType: client.ZSTD, MaxPendingMessages: 5000, SendTimeout: -1,
	})
	require.NoError(b, err)
	defer p.Close()
	s, err := c.Subscribe(client.ConsumerOptions{
		Topic: config.topic(synchronizer.Out), SubscriptionName: "bench", Type: client.KeyShared,
	})
	require.NoError(b, err)
	defer s.Close()
	properties := map[string]string{}
	for _, p := range benchProperties() {
		properties[p.Name] = p.Value
	}
	payload := benchBody()
	b.SetBytes(benchPayload)
	b.ResetTimer()
	published := make(chan error, 1)
	go func() {
		for i := range b.N {
			p.SendAsync(b.Context(), &client.ProducerMessage{
				OrderingKey: fmt.Sprintf("account/cluster-%d", i%benchKeys), Payload: payload, Properties: properties,
			}, func(client.MessageID, *client.ProducerMessage, error) {})
		}
		published <- p.FlushWithCtx(b.Context())
	}()
	for range b.N {
		m, err := s.Receive(b.Context())
		require.NoError(b, err)
		require.NoError(b, s.Ack(m))
	}
	require.NoError(b, <-published)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func benchConfig(b *testing.B) Config {
	p := brokers.SharedPulsar(b)
	n := names.Add(1)
	config := Config{
		URL: p.URL, AdminURL: p.AdminURL, Tenant: testTenant, Namespace: testNamespace,
		OutTopic: fmt.Sprintf("bench-out-%d", n), InTopic: fmt.Sprintf("bench-in-%d", n),
	}
	config = config.withDefaults()
	require.NoError(b, newAdmin(&config, nil, "").prepare(b.Context(), &config))
	return config
}

// benchBody compresses about as well as an object does.
func benchBody() []byte {
	return bytes.Repeat([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-7d9f","uid":"5b1c"}}, `), 27)[:benchPayload]
}

func benchProperties() []synchronizer.Property {
	return []synchronizer.Property{
		{Name: "timestamp", Value: "2026-11-29T12:37:45.059082089Z"},
		{Name: "event", Value: "PutObject"},
		{Name: "account", Value: "11111111-2222-3333-4444-11111111"},
		{Name: "cluster", Value: "cluster-1"},
		{Name: "group", Value: "apps"},
		{Name: "version", Value: "v1"},
		{Name: "resource", Value: "deployments"},
		{Name: "namespace", Value: "demo"},
		{Name: "name", Value: "web"},
		{Name: "resourceVersion", Value: "0"},
		{Name: "x-producer-source", Value: "synchronizer-server"},
	}
}
