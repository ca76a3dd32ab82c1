// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// TestLargeReconciliation: of 100,000 objects that agree nothing is kept but the
// batch itself and an index into it, and nothing is read.
func TestLargeReconciliation(t *testing.T) {
	const n = 100_000
	m, b := largeReconciliation(n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m.reconciled(b)
	for m.hasWork() {
		m.work(m.now, batchMessages)
	}
	runtime.ReadMemStats(&after)
	require.Empty(t, m.effects)
	require.Empty(t, m.batches)
	grown := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d bytes were allocated in all, beside the batch", grown)
	require.Less(t, grown, uint64(8*n))
}

func BenchmarkReconciliation(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		b.StopTimer()
		m, batch := largeReconciliation(n)
		b.StartTimer()
		m.reconciled(batch)
		for m.hasWork() {
			m.work(m.now, batchMessages)
		}
	}
}

func largeReconciliation(n int) (*player, *batch) {
	m := newPlayer(traits{})
	m.play("up list end")
	b := &batch{msgID: "m", depth: 2, items: make([]synchronizer.Message, n)}
	for i := range n {
		name := fmt.Sprint("object-", i*7919%n)
		m.store(keyOf("default", name), entry{version: uint64(i + 1), digest: [16]byte{1}, sent: 1})
		b.items[i] = synchronizer.Message{Event: synchronizer.EventVerify, Namespace: "default", Name: name, ResourceVersion: int64(i + 1)}
	}
	m.effects = nil
	return m, b
}
