// SPDX-License-Identifier: Apache-2.0

//go:build unix

package nats

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

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

// BenchmarkThroughput: publish (batches of 100, four at once) and consume with
// acknowledgement at the same time. cpu-µs/op is that of the whole process.
func BenchmarkThroughput(b *testing.B) {
	for _, always := range []bool{false, true} {
		b.Run(fmt.Sprintf("SyncAlways=%v", always), func(b *testing.B) {
			q := open(b, EmbeddedConfig{Dir: b.TempDir(), SyncAlways: always})
			defer shut(b, q)
			c, err := q.Consume(b.Context(), "g")
			require.NoError(b, err)
			records := benchRecords(b, 100)
			before := cpu()
			b.ResetTimer()
			failed := make(chan error, 4)
			for w := range 4 {
				go func() {
					for i := w * 100; i < b.N; i += 400 {
						if err := q.Publish(b.Context(), synchronizer.Out, records[:min(100, b.N-i)]); err != nil {
							failed <- err
							return
						}
					}
					failed <- nil
				}()
			}
			batches := 0
			for n := 0; n < b.N; batches++ {
				batch, err := c.Next(b.Context(), 500, 8<<20)
				require.NoError(b, err)
				n += len(batch.Records)
				require.NoError(b, batch.Ack(b.Context()))
			}
			for range 4 {
				require.NoError(b, <-failed)
			}
			b.StopTimer()
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(b.N)/float64(batches), "records/batch")
		})
	}
}

// BenchmarkOneProducer is one producer (calls of 500 records, two at once, so that
// the next is on its way while one is confirmed) and one consumer that acknowledges
// each batch, in this process and over TCP; Raw is the client library alone on the
// same broker: one stream, one consumer, the same bytes. cpu-µs/op leaves the
// broker out where it is a process of its own.
func BenchmarkOneProducer(b *testing.B) {
	records := benchRecords(b, 500)
	run := func(b *testing.B, q *Queue) {
		c, err := q.Consume(b.Context(), "g")
		require.NoError(b, err)
		measure(b, func() error {
			var calls errgroup.Group
			calls.SetLimit(2)
			for i := 0; i < b.N; i += len(records) {
				calls.Go(func() error {
					return q.Publish(b.Context(), synchronizer.Out, records[:min(len(records), b.N-i)])
				})
			}
			return calls.Wait()
		}, func() (int, error) {
			batch, err := c.Next(b.Context(), 500, 8<<20)
			if err != nil {
				return 0, err
			}
			return len(batch.Records), batch.Ack(b.Context())
		})
	}
	b.Run("Embedded", func(b *testing.B) {
		q := open(b, EmbeddedConfig{Dir: b.TempDir()})
		defer shut(b, q)
		run(b, q)
	})
	b.Run("TCP", func(b *testing.B) {
		q := openTCP(b, tcpConfig(b, brokers.StartNATS(b, brokers.NATSOptions{})))
		defer shut(b, q)
		run(b, q)
	})
	b.Run("RawEmbedded", func(b *testing.B) {
		q := open(b, EmbeddedConfig{Dir: b.TempDir()})
		defer shut(b, q)
		raw(b, q.write, q.read, records)
	})
	b.Run("RawTCP", func(b *testing.B) {
		q := openTCP(b, tcpConfig(b, brokers.StartNATS(b, brokers.NATSOptions{})))
		defer shut(b, q)
		raw(b, q.write, q.read, records)
	})
}

func measure(b *testing.B, publish func() error, take func() (int, error)) {
	before := cpu()
	b.ResetTimer()
	done := make(chan error, 1)
	go func() { done <- publish() }()
	batches := 0
	for n := 0; n < b.N; batches++ {
		got, err := take()
		require.NoError(b, err)
		n += got
	}
	require.NoError(b, <-done)
	b.StopTimer()
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(b.N)/float64(batches), "records/batch")
}

// raw uses the library as its documentation shows: asynchronous publishing, and a
// pull consumer of which each batch is acknowledged by its last message.
func raw(b *testing.B, write, read *natsgo.Conn, records []synchronizer.Record) {
	publisher, err := jetstream.New(write, jetstream.WithPublishAsyncMaxPending(4000))
	require.NoError(b, err)
	reader, err := jetstream.New(read)
	require.NoError(b, err)
	stream, err := reader.CreateStream(b.Context(), jetstream.StreamConfig{Name: "raw", Subjects: []string{"raw.>"}, MaxBytes: 1 << 30})
	require.NoError(b, err)
	c, err := stream.CreateConsumer(b.Context(), jetstream.ConsumerConfig{Durable: "raw", AckPolicy: jetstream.AckAllPolicy, MaxAckPending: 1 << 17})
	require.NoError(b, err)
	messages, err := c.Messages(jetstream.PullMaxMessages(2000))
	require.NoError(b, err)
	defer messages.Stop()
	measure(b, func() error {
		for i := range b.N {
			r := &records[i%len(records)]
			m := &natsgo.Msg{Subject: "raw." + token(r.Key), Header: natsgo.Header{}, Data: r.Payload}
			for _, p := range r.Properties {
				m.Header[p.Name] = []string{p.Value}
			}
			if _, err := publisher.PublishMsgAsync(m); err != nil {
				return err
			}
		}
		<-publisher.PublishAsyncComplete()
		return nil
	}, func() (int, error) {
		var last jetstream.Msg
		n := 0
		for n < 500 {
			m, err := messages.Next(jetstream.NextMaxWait(20 * time.Millisecond))
			if errors.Is(err, natsgo.ErrTimeout) {
				break
			}
			if err != nil {
				return n, err
			}
			last, n = m, n+1
		}
		if last == nil {
			return 0, nil
		}
		return n, last.DoubleAck(b.Context())
	})
}

// BenchmarkLatency is one record through an idle queue, with acknowledgement.
func BenchmarkLatency(b *testing.B) {
	q := open(b, EmbeddedConfig{Dir: b.TempDir()})
	defer shut(b, q)
	c, err := q.Consume(b.Context(), "g")
	require.NoError(b, err)
	records := benchRecords(b, 1)
	for b.Loop() {
		require.NoError(b, q.Publish(b.Context(), synchronizer.Out, records))
		batch, err := c.Next(b.Context(), 500, 8<<20)
		require.NoError(b, err)
		require.NoError(b, batch.Ack(b.Context()))
	}
}

// BenchmarkOpen is the start on a directory that holds 1,000 records, and what an
// idle queue adds to the memory of the process.
func BenchmarkOpen(b *testing.B) {
	config := EmbeddedConfig{Dir: b.TempDir()}
	before := resident()
	q := open(b, config)
	_, err := q.Tail(b.Context())
	require.NoError(b, err)
	_, err = q.Consume(b.Context(), "g")
	require.NoError(b, err)
	added := resident() - before
	require.NoError(b, q.Publish(b.Context(), synchronizer.Out, benchRecords(b, 1000)))
	shut(b, q)
	var opening time.Duration
	for b.Loop() {
		start := time.Now()
		q := open(b, config)
		opening += time.Since(start)
		shut(b, q)
	}
	b.ReportMetric(float64(opening.Microseconds())/1000/float64(b.N), "open-ms")
	b.ReportMetric(float64(added)/(1<<20), "MiB-added")
}

func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func resident() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
