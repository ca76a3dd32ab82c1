// SPDX-License-Identifier: Apache-2.0

package chunk_test

import (
	"testing"

	"go.uber.org/goleak"

	"synchronizer"
	"synchronizer/internal/queue/chunk"
	"synchronizer/internal/queue/queuetest"
	"synchronizer/internal/queue/queuetest/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestContract: what is around the broker keeps its contract. The limit is so
// small that records of several scenarios are split.
func TestContract(t *testing.T) {
	const limit = 36 << 10
	queuetest.Run(t, queuetest.Factory{
		Name: "chunks in memory",
		New: func(*testing.T) queuetest.Open {
			m := &memory.Broker{MaxRecord: limit}
			return func(*testing.T) synchronizer.Queue {
				return chunk.New(m.Open(), chunk.Options{MaxRecord: limit, MaxSetBytes: 24 << 20})
			}
		},
		MaxPayload: 24 << 20,
		OneMember:  true,
		HoldsAll:   true,
	})
}
