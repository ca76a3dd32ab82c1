// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/test/brokers"
)

// TestTailThatIsInterruptedBehind: a tail with much to read begins anew several
// times while earlier consumers still bring records. It gets ahead, and every
// record comes once and in order.
func TestTailThatIsInterruptedBehind(t *testing.T) {
	q := openTCP(t, tcpConfig(t, brokers.SharedNATS(t)))
	defer shut(t, q)
	made, err := q.Tail(t.Context())
	require.NoError(t, err)
	tailed := made.(*tail)
	const records = 4 * tailRecords
	require.NoError(t, q.Publish(t.Context(), synchronizer.In, numbers("a/c", 0, records, 8)))
	ctx := limited(t)
	for next, interrupted := 0, false; next < records; {
		got, err := tailed.Next(ctx)
		require.NoError(t, err, "after %d records", next)
		for i := range got {
			require.Equal(t, next, numberOf(&got[i]))
			next++
		}
		if interrupted {
			continue
		}
		interrupted = true // in the middle of what was asked for
		for range 2 {
			require.NoError(t, tailed.attach(ctx))
			require.NoError(t, tailed.pull.request(tailRecords, tailBytes))
			require.Eventually(t, func() bool { return len(tailed.pull.arrived) >= tailRecords }, patience, time.Millisecond)
		}
		require.NoError(t, tailed.attach(ctx))
	}
}
