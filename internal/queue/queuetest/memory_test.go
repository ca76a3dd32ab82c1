// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"testing"

	"go.uber.org/goleak"

	"synchronizer"
	"synchronizer/internal/queue/queuetest/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMemory: the suite's own broker keeps the contract.
func TestMemory(t *testing.T) {
	Run(t, Factory{
		Name: "memory",
		New: func(*testing.T) Open {
			m := &memory.Broker{MaxRecord: 32 << 20}
			return func(*testing.T) synchronizer.Queue { return m.Open() }
		},
		MaxPayload: 32 << 20,
		OneMember:  true,
		HoldsAll:   true,
	})
}
