// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"testing"

	"github.com/stretchr/testify/require"
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

// TestHands: a key may begin anew at another member, but not behind what is still
// in somebody's hands.
func TestHands(t *testing.T) {
	h := &hands{final: map[string]int{}}
	first, second := map[string]int{}, map[string]int{}
	require.NoError(t, h.took(first, numbered("a", 0, 10)))
	require.NoError(t, h.finish(numbered("a", 0, 5)))
	require.ErrorContains(t, h.took(second, numbered("a", 10, 11)), "another has 5 in its hands")
	require.NoError(t, h.took(second, numbered("a", 5, 12)), "5 to 9 again")
	require.NoError(t, h.took(second, numbered("b", 0, 1)), "another key")
	require.ErrorContains(t, h.took(first, numbered("a", 12, 13)), "in its hands")
	require.NoError(t, h.finish(numbered("a", 5, 12)))
	require.NoError(t, h.took(first, numbered("a", 12, 13)))
}
