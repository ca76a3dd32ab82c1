// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/kube/kubefake"
)

func TestRequestsOfTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
		r.cluster.Put(configmaps, doc(configmaps, "excluded", "c", "1"))
		r.start()
		r.backend.heard()
		ask := func(event synchronizer.Event, kind synchronizer.Kind, namespace, name string, depth int) {
			r.backend.link.down <- synchronizer.Message{Event: event, Kind: kind, Namespace: namespace, Name: name, MsgID: "m", Depth: depth}
			synctest.Wait()
		}
		ask(synchronizer.EventGet, configmaps, "default", "c", 5)
		require.Equal(t, []string{"PutObject /v1/configmaps default/c"}, r.backend.heard())
		require.Equal(t, 6, r.backend.depths[len(r.backend.depths)-1])
		require.Equal(t, 1, r.cluster.Gets(configmaps), "the pool holds it no more")

		ask(synchronizer.EventGet, configmaps, "default", "c", 8)
		ask(synchronizer.EventGet, configmaps, "default", "gone", 2)
		ask(synchronizer.EventGet, configmaps, "excluded", "c", 2)
		ask(synchronizer.EventGet, widgets, "default", "c", 2)
		ask(synchronizer.EventPut, configmaps, "default", "c", 2)
		ask(synchronizer.EventReconciliation, configmaps, "", "", 2)
		ask(synchronizer.EventPing, synchronizer.Kind{}, "", "", 0)
		require.Empty(t, r.backend.heard())
		require.Equal(t, []string{"/v1/configmaps default/c: GetObject"}, r.backend.dropped(synchronizer.DropTooDeep))
		require.Equal(t, []string{"/v1/configmaps default/gone: deleted", "/v1/configmaps excluded/c: its namespace is excluded"}, r.backend.dropped(synchronizer.DropSuperfluousGet))
		require.Equal(t, []string{"GetObject example.com/v1/widgets default/c"}, r.backend.dropped(synchronizer.DropNotConfigured))
		require.Len(t, r.backend.dropped(synchronizer.DropUnsupported), 2)
		r.stop()
	})
}

func TestRequestsAreAnsweredWhileAListRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
		release := r.cluster.Hold(kubefake.VerbList, configmaps)
		r.start()
		r.backend.link.down <- synchronizer.Message{Event: synchronizer.EventGet, Kind: configmaps, Namespace: "default", Name: "c", MsgID: "m", Depth: 2}
		synctest.Wait()
		require.Equal(t, []string{"PutObject /v1/configmaps default/c"}, r.backend.heard())
		release()
		synctest.Wait()
		require.NoError(t, r.agree(configmaps))
		r.stop()
	})
}

func TestReadsThatHangKeepNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for i := range 2 * clusterReads {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
		}
		r.cluster.Put(deployments, doc(deployments, "default", "web", "1"))
		r.start()
		release := r.cluster.Hold(kubefake.VerbGet, configmaps)
		for i := range 2 * clusterReads {
			r.backend.ask(configmaps, "default", fmt.Sprint("c", i))
		}
		synctest.Wait()
		require.Equal(t, clusterReads, r.cluster.Held(kubefake.VerbGet, configmaps))
		r.backend.heard()
		r.backend.ask(deployments, "default", "web")
		r.settle(readTimeout)
		require.Equal(t, []string{"PutObject apps/v1/deployments default/web"}, r.backend.heard())
		require.Equal(t, maxReads, r.kind(configmaps).Dirty)
		release()
		r.settle(time.Minute)
		require.Zero(t, r.kind(configmaps).Dirty)
		require.NoError(t, r.agree(configmaps, deployments))
		r.stop()
	})
}
