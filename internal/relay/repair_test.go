// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// TestRepairDoesNotWaitForTheConnect: what was lost is asked for soon, also when the
// request after the connect is far away; that comes all the same.
func TestRepairDoesNotWaitForTheConnect(t *testing.T) {
	for after, want := range map[time.Duration][2]int{0: {1, 1}, time.Minute: {1, 2}, time.Hour: {1, 2}, 10 * time.Second: {1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			c := newClock(t, after)
			leave := c.accept(t, "v0.0.57")
			conn := c.registry.find(synchronizer.ClusterID{Account: "a", Cluster: "c"})
			conn.repair()
			conn.repair()
			pass(repairAfter + repairAfter/5 + 1)
			require.Len(t, c.requests(), want[0], after)
			pass(2 * time.Hour)
			require.Len(t, c.requests(), want[1], after)
			conn.repair()
			leave()
			pass(time.Hour)
			require.Len(t, c.requests(), want[1], "it is cancelled with the connection")
		})
	}
}
