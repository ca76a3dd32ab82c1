// SPDX-License-Identifier: Apache-2.0

//go:build unix

package nats

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue"
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
