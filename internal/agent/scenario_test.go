// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/kube/kubefake"
)

func TestFirstSyncChangeDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for i := range 300 {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
		}
		r.cluster.Put(configmaps, doc(configmaps, "excluded", "c", "1"))
		r.cluster.Put(deployments, doc(deployments, "default", "web", "1"))
		r.start()
		require.True(t, r.agent.Ready())
		require.NoError(t, r.agree(configmaps, deployments))
		require.Equal(t, 301, r.backend.asked)
		require.Zero(t, r.cluster.Gets(configmaps)+r.cluster.Gets(deployments), "all answers come from the pool")
		require.Zero(t, r.agent.pool.size())
		r.backend.heard()

		r.cluster.Put(deployments, doc(deployments, "default", "web", "2"))
		synctest.Wait()
		require.Equal(t, []string{"PatchObject apps/v1/deployments default/web"}, r.backend.heard())

		r.cluster.Put(deployments, doc(deployments, "default", "web", "2"))
		synctest.Wait()
		require.Empty(t, r.backend.heard(), "only the resourceVersion changed")

		r.cluster.Put(configmaps, doc(configmaps, "default", "new", "1"))
		synctest.Wait()
		require.Equal(t, []string{"VerifyObject /v1/configmaps default/new", "PutObject /v1/configmaps default/new"}, r.backend.heard())

		r.cluster.Delete(configmaps, "default", "new")
		synctest.Wait()
		require.Equal(t, []string{"DeleteObject /v1/configmaps default/new"}, r.backend.heard())

		r.cluster.Delete(deployments, "default", "web")
		r.cluster.Put(deployments, doc(deployments, "default", "web", "2"))
		r.settle(time.Second)
		require.Equal(t, []string{
			"DeleteObject apps/v1/deployments default/web",
			"VerifyObject apps/v1/deployments default/web", "PutObject apps/v1/deployments default/web",
		}, r.backend.heard())

		require.NoError(t, r.agree(configmaps, deployments))
		require.Empty(t, r.backend.faults)
		require.LessOrEqual(t, slices.Max(r.backend.depths), 3)
		status := r.kind(configmaps)
		require.Equal(t, StateWatching, status.State)
		require.Equal(t, 300, status.Objects)
		r.stop()
		require.Equal(t, 1001, r.backend.link.closed)
	})
}

func TestRestartWithoutChangeAsksAndWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small := func(o *Options) { o.OfferBytes = 4 << 10 }
		r := newRig(t, small)
		for i := range 500 {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
		}
		r.start()
		r.settle(time.Minute)
		require.NoError(t, r.agree(configmaps))
		r.stop()

		again := newRig(t, func(o *Options) { small(o); o.Cluster = r.cluster })
		again.cluster, again.backend.objects = r.cluster, r.backend.objects
		gets := r.cluster.Gets(configmaps)
		again.start() // no time passes
		require.Equal(t, StateWatching, again.kind(configmaps).State)
		require.Equal(t, 500, len(again.backend.heard()))
		require.Zero(t, again.backend.asked)
		require.Equal(t, gets, r.cluster.Gets(configmaps))
		again.stop()
	})
}

func TestListWaitsForRoomInThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.OfferBytes = 64 << 10 })
		r.backend.latency = 5 * time.Millisecond
		for i := range 2000 {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
		}
		r.start()
		r.settle(time.Minute)
		require.NoError(t, r.agree(configmaps))
		require.LessOrEqual(t, r.agent.pool.size(), 64<<10)
		// Until the first answer nobody knows that the backend will ask, so that the
		// first offers may be lost; afterwards the list goes as fast as the answers.
		require.Less(t, r.cluster.Gets(configmaps), 200)
		r.stop()
	})
}

func TestRelistFindsWhatVanished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for i := range 10 {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
		}
		r.start()
		r.backend.heard()
		r.cluster.DeleteSilently(configmaps, "default", "c3")
		r.cluster.PutSilently(configmaps, doc(configmaps, "default", "c4", "2"))
		r.cluster.PutSilently(configmaps, doc(configmaps, "default", "c10", "1"))
		synctest.Wait()
		require.Empty(t, r.backend.heard())
		r.cluster.ExpireWatches(configmaps)
		r.settle(time.Minute)
		require.NoError(t, r.agree(configmaps))
		require.Equal(t, 2, r.cluster.Lists(configmaps))
		require.ElementsMatch(t, []string{
			"VerifyObject /v1/configmaps default/c4", "PutObject /v1/configmaps default/c4",
			"VerifyObject /v1/configmaps default/c10", "PutObject /v1/configmaps default/c10",
			"DeleteObject /v1/configmaps default/c3",
		}, r.backend.heard())
		r.stop()
	})
}

func TestManyVanishedObjectsAreConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for i := range 60 {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
		}
		r.start()
		r.backend.heard()
		for i := range 30 {
			r.cluster.DeleteSilently(configmaps, "default", fmt.Sprint("c", i))
		}
		r.cluster.ExpireWatches(configmaps)
		r.settle(20 * time.Second)
		require.Empty(t, r.backend.heard())
		require.True(t, r.kind(configmaps).Held)
		r.cluster.PutSilently(configmaps, doc(configmaps, "default", "c7", "1")) // it was only away
		r.settle(20 * time.Second)
		require.NoError(t, r.agree(configmaps))
		require.Len(t, slices.DeleteFunc(r.backend.heard(), func(s string) bool { return s[0] != 'D' }), 29)
		require.False(t, r.kind(configmaps).Held)
		r.stop()
	})
}

func TestLinkBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for i := range 20 {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
		}
		r.start()
		r.settle(10 * time.Minute)
		r.cluster.Put(configmaps, doc(configmaps, "default", "c1", "2"))
		r.cluster.Delete(configmaps, "default", "c2")
		r.settle(99 * time.Second)
		r.backend.heard()
		r.backend.setRefuse(errors.New("away"))
		r.backend.cut()
		synctest.Wait()
		require.False(t, r.agent.Status().Connected)
		r.cluster.Put(configmaps, doc(configmaps, "default", "c3", "2"))
		r.cluster.Delete(configmaps, "default", "c4")
		r.cluster.Put(configmaps, doc(configmaps, "default", "c20", "1"))
		r.cluster.Put(configmaps, doc(configmaps, "default", "c21", "1"))
		r.cluster.Delete(configmaps, "default", "c21")
		r.settle(time.Hour)
		require.Empty(t, r.backend.heard())
		require.Equal(t, 3, r.kind(configmaps).Dirty) // c1 c3 c20

		r.backend.setRefuse(nil)
		r.settle(2 * time.Minute)
		require.NoError(t, r.agree(configmaps))
		require.ElementsMatch(t, []string{
			"VerifyObject /v1/configmaps default/c1", // sent 99 s before the break, but it had arrived
			"VerifyObject /v1/configmaps default/c3", "PutObject /v1/configmaps default/c3",
			"VerifyObject /v1/configmaps default/c20", "PutObject /v1/configmaps default/c20",
			"DeleteObject /v1/configmaps default/c2", "DeleteObject /v1/configmaps default/c4", "DeleteObject /v1/configmaps default/c21",
		}, r.backend.heard())
		require.Equal(t, 1, r.cluster.Lists(configmaps))
		r.stop()
	})
}

func TestManyDirtyKeysAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for i := range 1000 {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
		}
		r.start()
		r.settle(10 * time.Minute)
		r.backend.heard()
		r.backend.setRefuse(errors.New("away"))
		r.backend.cut()
		for i := range 500 {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "2"))
		}
		r.settle(time.Minute)
		r.backend.setRefuse(nil)
		r.settle(2 * time.Minute)
		require.NoError(t, r.agree(configmaps))
		require.Equal(t, 1000, len(r.backend.heard()))
		require.Equal(t, 2, r.cluster.Lists(configmaps))
		require.Zero(t, r.cluster.Gets(configmaps))
		r.stop()
	})
}

func TestSlowLinkHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.start()
		resume := r.backend.pause()
		for i := range 5000 {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
		}
		r.settle(time.Minute)
		require.Less(t, r.kind(configmaps).Objects, 500, "the watch waits")
		resume()
		r.settle(time.Minute)
		require.NoError(t, r.agree(configmaps))
		r.stop()
	})
}

func TestOneKindFailsAlone(t *testing.T) {
	failures := map[string]struct {
		err   error
		state State
		until time.Duration // the next try comes before
	}{
		"broken":       {errors.New("broken"), StateFailing, 50 * time.Second},
		"not served":   {synchronizer.ErrKindNotServed, StateNotServed, 31 * time.Second},
		"forbidden":    {synchronizer.ErrForbidden, StateForbidden, 61 * time.Second},
		"throttled":    {&synchronizer.RetryAfterError{After: 2 * time.Minute, Err: errors.New("slowly")}, StateFailing, 121 * time.Second},
		"token is old": {synchronizer.ErrGone, StateFailing, 50 * time.Second},
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
				r.cluster.Put(deployments, doc(deployments, "default", "web", "1"))
				r.cluster.FailList(deployments, failure.err)
				r.start()
				r.settle(10 * time.Minute)
				require.NoError(t, r.agree(configmaps))
				require.Equal(t, failure.state, r.kind(deployments).State)
				require.NotEmpty(t, r.kind(deployments).Error)
				require.Equal(t, StateWatching, r.kind(configmaps).State)
				require.Less(t, r.cluster.Lists(deployments), 60, "tries are paced")
				r.cluster.FailList(deployments, nil)
				r.settle(failure.until)
				require.NoError(t, r.agree(configmaps, deployments))
				require.Empty(t, r.kind(deployments).Error)
				r.stop()
			})
		})
	}
}

func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
		r.start()
		for i := range 20 {
			r.settle(time.Minute)
			r.cluster.EndWatches(configmaps)
			r.cluster.Put(configmaps, doc(configmaps, "default", "c", fmt.Sprint(i)))
			r.settle(0)
			require.NoError(t, r.agree(configmaps), "resumed without a pause")
		}
		require.Equal(t, 1, r.cluster.Lists(configmaps))
		watches := r.cluster.Watches(configmaps)
		r.cluster.FailWatch(configmaps, errors.New("broken"))
		r.cluster.BreakWatches(configmaps)
		r.settle(10 * time.Minute)
		require.Less(t, r.cluster.Watches(configmaps)-watches, 60)
		r.cluster.FailWatch(configmaps, nil)
		r.cluster.Put(configmaps, doc(configmaps, "default", "c", "new"))
		r.settle(time.Minute)
		require.NoError(t, r.agree(configmaps))
		require.Equal(t, 1, r.cluster.Lists(configmaps))
		r.stop()
	})
}

func TestUnreadableAndLargeObjectsArePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.MaxObjectBytes = 1000 })
		r.cluster.Put(configmaps, doc(configmaps, "default", "a", "1"))
		r.cluster.Put(configmaps, doc(configmaps, "default", "b", fmt.Sprintf("%01000d", 1)))
		r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
		r.cluster.FailItem(configmaps, "default", "a", errors.New("no body"))
		r.start()
		require.Equal(t, 3, r.kind(configmaps).Objects)
		require.Len(t, r.backend.rows(), 1)
		require.Equal(t, []string{"/v1/configmaps default/a: no body"}, r.backend.dropped(synchronizer.DropUnreadable))
		require.Contains(t, r.backend.dropped(synchronizer.DropTooLarge)[0], "/v1/configmaps default/b")
		r.cluster.FailItem(configmaps, "default", "a", nil)
		r.cluster.Put(configmaps, doc(configmaps, "default", "a", "2"))
		r.cluster.Put(configmaps, doc(configmaps, "default", "b", "2"))
		synctest.Wait()
		require.NoError(t, r.agree(configmaps))
		r.stop()
	})
}

func TestOnlyTwoFirstLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Kinds = append(o.Kinds, KindConfig{Kind: widgets, Strategy: StrategyCopy}) })
		r.cluster.Serve(widgets)
		var releases []func()
		for _, kind := range []synchronizer.Kind{configmaps, deployments, widgets} {
			releases = append(releases, r.cluster.Hold(kubefake.VerbList, kind))
		}
		r.start()
		lists := func() int {
			return r.cluster.Lists(configmaps) + r.cluster.Lists(deployments) + r.cluster.Lists(widgets)
		}
		require.Equal(t, 2, lists())
		for _, release := range releases {
			release()
		}
		synctest.Wait()
		require.Equal(t, 3, lists())
		r.stop()
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		r := newRig(t, func(o *Options) { o.Registerer = registry })
		r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
		r.start()
		families, err := registry.Gather()
		require.NoError(t, err)
		values := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := f.GetName()
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		require.Equal(t, 1.0, values["synchronizer_agent_connected"])
		require.Equal(t, 1.0, values["synchronizer_agent_objects /v1/configmaps"])
		require.Equal(t, 1.0, values["synchronizer_agent_messages_sent_total VerifyObject /v1/configmaps"])
		require.Equal(t, 1.0, values["synchronizer_agent_kind_state /v1/configmaps watching"])
		require.Equal(t, 1.0, values["synchronizer_agent_events_total /v1/configmaps listed"])
		require.Equal(t, 1.0, values["synchronizer_agent_list_duration_seconds /v1/configmaps"])
		r.stop()
	})
}
