// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestB030NoImmediateFire: a delay that has no room for its jitter is ignored with a
// warning, one that has is kept, and none of them panics or fires at once. How
// seconds become delays is tested in internal/config.
func TestB030NoImmediateFire(t *testing.T) {
	const second = time.Second
	for _, test := range []struct {
		delay   time.Duration
		asks    bool // within a century
		warning bool
	}{
		{-1 * second, false, false},
		{0, false, false},
		{1 * second, true, false},
		{math.MaxInt32 * second, true, false},
		{7_600_000_000 * second, false, false}, // 240 years and more
		{7_700_000_000 * second, false, true},
		{math.MaxInt64 / second * second, false, true},
		{math.MaxInt64, false, true},
		{math.MinInt64, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClock(t, test.delay)
			leave := c.accept(t, "v0.0.57")
			pass(second - 1)
			require.Empty(t, c.requests(), test.delay)
			pass(100 * 365 * 24 * time.Hour)
			if test.asks {
				require.Len(t, c.requests(), 1, test.delay)
			} else {
				require.Empty(t, c.requests(), test.delay)
			}
			if test.warning {
				require.Contains(t, c.log.String(), "level=WARN msg=\"the delay of the reconciliation after a connect is too large for its jitter: ignored\"")
			} else {
				require.NotContains(t, c.log.String(), "level=WARN", test.delay)
			}
			leave()
		})
	}
}

// TestB030JitterOfLargeDelays: the delay and its fifth, not a sum that has turned
// negative.
func TestB030JitterOfLargeDelays(t *testing.T) {
	const most = math.MaxInt64 / 6 * 5 // with its fifth just below the end
	for _, delay := range []time.Duration{1, 4, 5, most - 10} {
		kept, ok := withRoom(delay)
		require.True(t, ok, delay)
		require.Equal(t, delay, kept)
		require.Positive(t, delay+delay/jitterDivisor+1)
	}
	for _, delay := range []time.Duration{most + 10, math.MaxInt64} {
		_, ok := withRoom(delay)
		require.False(t, ok, delay)
	}
}
