// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue"
)

// full keeps records of so many payload bytes until a backlog is at its limit of
// bytes, and gives the bytes of live heap for each byte that it counts.
func full(tb testing.TB, payload int, limit int64) (perByte float64) {
	tb.Helper()
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	b := newBacklog(ReplayLimits{MaxMessages: 1 << 30, MaxMessagesPerClient: 100, MaxBytes: limit})
	for i := uint64(0); len(b.lost) == 0; i++ {
		id := synchronizer.ClusterID{Account: "account-of-someone", Cluster: fmt.Sprintf("cluster-%d", i/100)}
		b.keep(id, receipt{seq: i}, new(commandOf(id, fmt.Sprintf("object-%d", i), payload)), 0)
	}
	b.lost = nil
	grown := heap() - before
	require.Greater(tb, b.bytes, limit*9/10)
	perByte = float64(grown) / float64(limit)
	runtime.KeepAlive(b)
	return perByte
}

// TestReplayAtItsLimitOfBytes: the live heap grows by less than 1.5 times the limit.
// Properties, which are counted too, are about 400 bytes of each record.
func TestReplayAtItsLimitOfBytes(t *testing.T) {
	for _, payload := range []int{0, 200, 1000, 6000, 70_000} {
		perByte := full(t, payload, 16<<20)
		t.Logf("payload of %d bytes: %.3f bytes of heap per byte of the limit", payload, perByte)
		require.Less(t, perByte, 1.5)
	}
}

func BenchmarkReplayKeep(b *testing.B) {
	for _, payload := range []int{1000, 6000} {
		b.Run(fmt.Sprintf("payload=%d", payload), func(b *testing.B) {
			id := synchronizer.ClusterID{Account: "account-of-someone", Cluster: "cluster"}
			r := commandOf(id, "object", payload)
			backlog := newBacklog(ReplayLimits{MaxMessagesPerClient: 10_000})
			b.ReportAllocs()
			b.SetBytes(packedSize(&r))
			for i := 0; b.Loop(); i++ {
				backlog.keep(id, receipt{at: time.Duration(i), seq: uint64(i)}, &r, time.Duration(i))
				backlog.lost = backlog.lost[:0]
			}
			b.ReportMetric(full(b, payload, 64<<20), "heap/limit")
		})
	}
}

// BenchmarkDispatch reads records of the field's encoding, which cost most, for 100
// clusters.
func BenchmarkDispatch(b *testing.B) {
	e := queue.Encoder{Encoding: queue.Field, Producer: queue.Backend}
	records := make([]synchronizer.Record, 500)
	for i := range records {
		m := ask("a", fmt.Sprint(i%100), fmt.Sprint(i))
		m.Event, m.Body = synchronizer.EventPut, []byte(`{"data":"`+strings.Repeat("x", 2000)+`"}`)
		var err error
		records[i], err = e.Encode(&m, queue.Extra{})
		require.NoError(b, err)
	}
	for _, workers := range []int{1, 2, 10} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			s := New(Options{
				Queue: newFakeQueue(), Workers: workers, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
				Drop: func(synchronizer.DropReason, string) {},
			})
			for b.Loop() {
				s.dispatchAll(records)
			}
			b.ReportMetric(float64(b.N*len(records))/b.Elapsed().Seconds(), "records/s")
		})
	}
}
