// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// An ingester is heard of at once and every ten seconds, and not while it cannot
// write.
func TestAnnounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		synctest.Wait() // it has joined its group
		go func() { _ = r.ingester.Announce(t.Context()) }()
		heard := func(after time.Duration) int {
			time.Sleep(after) // of the bubble
			synctest.Wait()
			list := r.questions(t)
			for _, m := range list {
				require.Equal(t, synchronizer.EventIngesterPresent, m.Event)
				require.Zero(t, m.ClusterID)
				require.NotEmpty(t, m.MsgID)
			}
			return len(list)
		}
		require.Equal(t, 1, heard(time.Second))
		require.Equal(t, 3, heard(3*AnnounceEvery))
		away := &effort{err: synchronizer.ErrNotFound}
		r.ingester.health.begin(away, r.ingester.Now())
		require.Zero(t, heard(3*AnnounceEvery))
		r.ingester.health.end(away)
		require.Equal(t, 1, heard(2*unready))
	})
}
