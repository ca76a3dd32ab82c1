// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/kube/kubefake"
)

func TestSelectorDeletedIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withSelected)
		put := func(name, value string) { r.cluster.Put(services, doc(services, "default", name, value)) }
		for _, name := range []string{"a", "b", "c", "d"} {
			put(name, "1")
		}
		put("never", "0")
		r.start()
		r.settle(time.Minute)
		require.Equal(t, 4, r.kind(services).Objects)
		r.backend.heard()

		put("a", "0")
		r.left["/v1/services default/a"] = true // what becomes of it is not said any more
		synctest.Wait()
		require.Empty(t, r.backend.heard(), "it still exists")
		require.Equal(t, []string{"/v1/services default/a"}, r.backend.dropped(synchronizer.DropOutOfScope))
		require.Equal(t, 3, r.kind(services).Objects)
		put("a", "0")
		r.cluster.Delete(services, "default", "a")
		synctest.Wait()
		require.Empty(t, r.backend.heard(), "out of scope is forgotten")

		r.cluster.Delete(services, "default", "b")
		synctest.Wait()
		require.Equal(t, []string{"DeleteObject /v1/services default/b"}, r.backend.heard())

		r.cluster.FailNext(kubefake.VerbGet, services, errors.New("broken"), errors.New("broken"))
		r.cluster.Delete(services, "default", "c")
		synctest.Wait()
		require.Empty(t, r.backend.heard(), "nothing is known yet")
		require.Equal(t, 1, r.kind(services).Dirty)
		r.settle(10 * time.Second)
		require.Equal(t, []string{"DeleteObject /v1/services default/c"}, r.backend.heard())

		put("d", "0") // it returns before the GET has looked
		release := r.cluster.Hold(kubefake.VerbGet, services)
		put("d", "0")
		put("d", "2")
		synctest.Wait()
		release()
		r.settle(10 * time.Second)
		require.NoError(t, r.agree(services))
		require.NotContains(t, r.backend.heard(), "DeleteObject /v1/services default/d")

		r.backend.ask(services, "default", "never")
		synctest.Wait()
		require.Empty(t, r.backend.heard(), "the backend gets nothing from outside")
		require.Empty(t, r.backend.faults)
		r.stop()
	})
}

func TestSelectorAndTheListThatShowsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withSelected)
		for i := range 10 {
			r.cluster.Put(services, doc(services, "default", fmt.Sprint("s", i), "1"))
		}
		r.start()
		r.settle(time.Minute)
		r.backend.heard()
		r.cluster.DeleteSilently(services, "default", "s1")
		r.cluster.PutSilently(services, doc(services, "default", "s2", "0"))
		r.cluster.ExpireWatches(services)
		r.settle(time.Minute)
		require.Equal(t, []string{"DeleteObject /v1/services default/s1"}, r.backend.heard())
		require.Equal(t, []string{"/v1/services default/s2"}, r.backend.dropped(synchronizer.DropOutOfScope))
		r.stop()
	})
}

func TestEventsAreAppended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Kinds[1].Mode = ModeEvent })
		r.start()
		for n := range 5 {
			r.cluster.Put(deployments, annotated(n))
		}
		synctest.Wait()
		want := "PutObject apps/v1/deployments default/web"
		require.Equal(t, []string{want, want, want, want, want}, r.backend.heard(), "none is merged, none is a patch")
		r.cluster.Put(deployments, annotated(4))
		synctest.Wait()
		require.Empty(t, r.backend.heard(), "the same report")
		r.cluster.Delete(deployments, "default", "web")
		r.settle(time.Minute)
		require.Empty(t, r.backend.heard())
		require.Zero(t, r.kind(deployments).Objects)

		r.cluster.Put(deployments, annotated(7))
		synctest.Wait()
		r.backend.heard()
		r.cluster.DeleteSilently(deployments, "default", "web")
		r.cluster.ExpireWatches(deployments)
		r.settle(time.Minute)
		require.Zero(t, r.kind(deployments).Objects)
		r.backend.cut()
		r.settle(5 * time.Minute)
		require.Empty(t, r.backend.heard(), "deletions are not reported")
		r.stop()
	})
}
