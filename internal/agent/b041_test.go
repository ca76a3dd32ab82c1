// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// TestB041LinkFlaps breaks the link 50 times. It takes longer than the two
// minutes of the case, since the client backs off; time is virtual.
func TestB041LinkFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds := []synchronizer.Kind{configmaps, deployments, widgets}
		r, d, _ := kindsRig(t, kinds...)
		d.serve(widgets)
		for _, k := range kinds {
			r.cluster.Put(k, doc(k, "default", "a", "1"))
		}
		r.start()
		r.settle(10 * time.Minute)
		goroutines := runtime.NumGoroutine()

		for flap := 0; flap < 50; {
			if r.agent.Status().Connected {
				r.backend.cut()
				flap++
			}
			r.settle(200 * time.Millisecond)
		}
		r.settle(10 * time.Minute)
		require.GreaterOrEqual(t, r.backend.dials, 51)
		require.True(t, r.agent.Status().Connected)
		for _, k := range kinds {
			require.Equal(t, 1, r.cluster.Watching(k), "one watch of %v", k)
			require.Equal(t, 1, r.cluster.Watches(k), "the API server has nothing to do with it")
		}
		require.Equal(t, goroutines, runtime.NumGoroutine())

		r.backend.heard()
		r.cluster.Put(deployments, doc(deployments, "default", "a", "2"))
		r.settle(time.Minute)
		heard := slices.DeleteFunc(r.backend.heard(), func(s string) bool { return s == "" })
		require.Len(t, heard, 1, "one message for the change")
		require.Contains(t, heard[0], "apps/v1/deployments default/a")
		require.NoError(t, r.agree(kinds...))
		r.stop()
	})
}
