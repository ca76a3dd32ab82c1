// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/test/brokers"
)

// benchRecords are PutObjects of 2 KiB, as a server publishes them.
func benchRecords(tb testing.TB, n int) []synchronizer.Record {
	encoder := queue.Encoder{Encoding: queue.Compact, Producer: queue.Server}
	body := bytes.Repeat([]byte("x"), 2048)
	records := make([]synchronizer.Record, n)
	for i := range records {
		m := synchronizer.Message{
			Event: synchronizer.EventPut, Depth: 2, MsgID: "0b1cf1de-8c5f-4b1c-9d5e-5f3f6a3b7a11", Body: body,
			Checksum:  strings.Repeat("a", 64),
			ClusterID: synchronizer.ClusterID{Account: "11111111-2222-3333-4444-555555555555", Cluster: fmt.Sprintf("cluster-%d", i%20)},
			Kind:      synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}, Namespace: "default", Name: "web-" + strconv.Itoa(i),
			Stamp: synchronizer.Stamp{Source: "44418b18-34d7-4597-8417-e22d7024769a", Seq: uint64(i + 1)},
		}
		r, err := encoder.Encode(&m, queue.Extra{Link: "v1"})
		require.NoError(tb, err)
		records[i] = r
	}
	return records
}

// BenchmarkThroughput: one producer and one consumer that acknowledges, at the
// same time; by the adapter, and by the library alone with the same options.
func BenchmarkThroughput(b *testing.B) {
	config := testConfig(b, brokers.SharedKafka(b).Plain)
	config.Logger = slog.New(slog.DiscardHandler)
	records := benchRecords(b, 500)
	b.Run("adapter", func(b *testing.B) {
		config := config.withTopics()
		q := mustOpen(b, config)
		c, err := q.Consume(b.Context(), testGroup)
		require.NoError(b, err)
		failed := make(chan error, 1)
		b.ResetTimer()
		go func() {
			for i := 0; i < b.N; i += len(records) {
				if err := q.Publish(b.Context(), synchronizer.Out, records[:min(len(records), b.N-i)]); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
		for n := 0; n < b.N; {
			batch, err := c.Next(b.Context(), 500, 8<<20)
			require.NoError(b, err)
			n += len(batch.Records)
			require.NoError(b, batch.Ack(b.Context()))
		}
		require.NoError(b, <-failed)
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	})
	b.Run("library", func(b *testing.B) { benchLibrary(b, config.withTopics(), records) })
}

// benchLibrary does what the adapter has to do at least: it waits for each 500
// records before the next, and commits after each poll.
func benchLibrary(b *testing.B, config Config, records []synchronizer.Record) {
	mustOpen(b, config) // makes the topics
	producer, err := kgo.NewClient(kgo.SeedBrokers(config.BootstrapServers...),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerLinger(0), kgo.DefaultProduceTopic(config.OutTopic))
	require.NoError(b, err)
	defer producer.Close()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(config.BootstrapServers...),
		kgo.ConsumerGroup(testGroup), kgo.ConsumeTopics(config.OutTopic), kgo.DisableAutoCommit())
	require.NoError(b, err)
	defer consumer.Close()
	b.ResetTimer()
	failed := make(chan error, 1)
	go func() {
		for i := 0; i < b.N; i += len(records) {
			var waiting sync.WaitGroup
			var once sync.Once
			var first error
			for j := range records[:min(len(records), b.N-i)] {
				r := &kgo.Record{Key: []byte(records[j].Key), Value: records[j].Payload}
				for _, p := range records[j].Properties {
					r.Headers = append(r.Headers, kgo.RecordHeader{Key: p.Name, Value: []byte(p.Value)})
				}
				waiting.Add(1)
				producer.Produce(b.Context(), r, func(_ *kgo.Record, err error) {
					if err != nil {
						once.Do(func() { first = err })
					}
					waiting.Done()
				})
			}
			waiting.Wait()
			if first != nil {
				failed <- first
				return
			}
		}
		failed <- nil
	}()
	for n := 0; n < b.N; {
		fetches := consumer.PollRecords(b.Context(), 500)
		require.NoError(b, fetches.Err())
		n += fetches.NumRecords()
		require.NoError(b, consumer.CommitUncommittedOffsets(b.Context()))
	}
	require.NoError(b, <-failed)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkLatency is one record through an idle queue, with acknowledgement.
func BenchmarkLatency(b *testing.B) {
	config := testConfig(b, brokers.SharedKafka(b).Plain)
	config.Logger = slog.New(slog.DiscardHandler)
	q := mustOpen(b, config)
	c, err := q.Consume(b.Context(), testGroup)
	require.NoError(b, err)
	records := benchRecords(b, 1)
	for b.Loop() {
		require.NoError(b, q.Publish(b.Context(), synchronizer.Out, records))
		batch, err := c.Next(b.Context(), 500, 8<<20)
		require.NoError(b, err)
		require.NoError(b, batch.Ack(b.Context()))
	}
}
