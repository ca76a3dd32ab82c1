// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/kube/kubefake"
)

var (
	ciliumPolicies = synchronizer.Kind{Group: "cilium.io", Version: "v2", Resource: "ciliumnetworkpolicies"}
	calicoPolicies = synchronizer.Kind{Group: "projectcalico.org", Version: "v3", Resource: "networkpolicies"}
)

// kindsRig is a rig whose agent asks which kinds there are.
func kindsRig(t *testing.T, kinds ...synchronizer.Kind) (*rig, *fakeDiscovery, *bytes.Buffer) {
	var d *fakeDiscovery
	log := &bytes.Buffer{}
	r := newRig(t, func(o *Options) {
		d = newFakeDiscovery(o.Cluster.(*kubefake.Cluster), configmaps, deployments)
		d.lag = 2 * time.Second
		o.Discovery, o.Kinds = d, nil
		for _, k := range kinds {
			o.Kinds = append(o.Kinds, KindConfig{Kind: k, Strategy: StrategyCopy})
		}
		o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return r, d, log
}

func (r *rig) states() map[string]State {
	all := map[string]State{}
	for _, k := range r.agent.Status().Kinds {
		all[k.Name] = k.State
	}
	return all
}

// TestB095KindsNobodyInstalled runs for a day.
func TestB095KindsNobodyInstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d, log := kindsRig(t, ciliumPolicies, calicoPolicies, deployments)
		r.cluster.Put(deployments, doc(deployments, "default", "web", "1"))
		r.start()
		r.settle(24 * time.Hour)
		require.NoError(t, r.agree(deployments), "deployments are synchronized")
		require.True(t, r.agent.Ready(), "it is live")
		require.Empty(t, r.done)
		for _, k := range []synchronizer.Kind{ciliumPolicies, calicoPolicies} {
			require.Equal(t, StateAwaited, r.kind(k).State)
			require.Contains(t, r.kind(k).Error, "waiting for a custom resource definition")
			require.LessOrEqual(t, strings.Count(log.String(), k.String()), 3, "log lines in a day")
			require.Zero(t, r.cluster.Lists(k)+r.cluster.Watches(k), "it is not polled")
		}
		require.NotContains(t, log.String(), "level=WARN")
		require.NotContains(t, log.String(), "level=ERROR")
		require.Less(t, d.requests(), 24*10)
		r.stop()
	})
}

func TestB011KindComesLaterAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d, _ := kindsRig(t, configmaps, widgets)
		r.start()
		r.settle(30 * time.Second)
		require.Equal(t, StateAwaited, r.kind(widgets).State)

		d.define(widgets)
		r.cluster.Put(widgets, doc(widgets, "default", "one", "1"))
		r.cluster.Put(widgets, doc(widgets, "default", "two", "1"))
		r.settle(10 * time.Second)
		require.NoError(t, r.agree(widgets), "both objects, in seconds after the definition")
		require.Len(t, r.backend.rows(), 2)
		require.Equal(t, StateWatching, r.kind(widgets).State)

		d.undefine(widgets)
		r.settle(10 * time.Second)
		require.Empty(t, r.backend.rows(), "the objects of a definition that was deleted are deleted")
		require.Equal(t, StateAwaited, r.kind(widgets).State)
		require.Contains(t, r.kind(widgets).Error, "deleted")
		r.settle(10 * time.Minute)

		d.define(widgets)
		r.cluster.Put(widgets, doc(widgets, "default", "three", "1"))
		r.settle(10 * time.Second)
		require.NoError(t, r.agree(widgets), "the same after it was installed again")
		require.Len(t, r.backend.rows(), 1)
		r.stop()
	})
}

// TestB075ForbiddenKind: 403 on list and watch, granted after a minute.
func TestB075ForbiddenKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := synchronizer.Kind{Version: "v1", Resource: "secrets"}
		allowed := []synchronizer.Kind{configmaps, deployments}
		for i := range 3 {
			allowed = append(allowed, synchronizer.Kind{Version: "v1", Resource: fmt.Sprint("kind", i)})
		}
		r, d, log := kindsRig(t, append([]synchronizer.Kind{secrets, widgets}, allowed...)...)
		for _, k := range append(allowed, secrets) {
			d.serve(k)
			r.cluster.Put(k, doc(k, "default", "a", "1"))
		}
		r.cluster.FailList(secrets, synchronizer.ErrForbidden)
		r.cluster.FailWatch(secrets, synchronizer.ErrForbidden)
		r.start()
		r.settle(time.Second)
		require.NoError(t, r.agree(allowed...), "the others at once")
		denied := r.kind(secrets)
		require.Equal(t, StateForbidden, denied.State)
		require.NotEmpty(t, denied.Error)
		require.Contains(t, log.String(), "kind is forbidden")
		r.settle(59 * time.Second)
		require.Less(t, r.cluster.Lists(secrets), 12, "with back-off")
		require.Greater(t, r.cluster.Lists(secrets), 4, "at first soon")
		require.Equal(t, 1, strings.Count(log.String(), "kind is forbidden"))
		r.cluster.FailList(secrets, nil)
		r.cluster.FailWatch(secrets, nil)
		r.settle(time.Minute)
		require.NoError(t, r.agree(append(allowed, secrets)...), "within a minute after the grant")
		require.Equal(t, StateWatching, r.kind(secrets).State)
		r.stop()
	})
}

// TestForbiddenForHours: however long it was forbidden, a grant counts soon.
func TestForbiddenForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, _ := kindsRig(t, configmaps)
		r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
		r.cluster.FailList(configmaps, synchronizer.ErrForbidden)
		r.start()
		r.settle(5 * time.Hour)
		require.Less(t, r.cluster.Lists(configmaps), 5*60*2)
		r.cluster.FailList(configmaps, nil)
		r.settle(time.Minute)
		require.NoError(t, r.agree(configmaps))

		r.cluster.FailWatch(configmaps, synchronizer.ErrForbidden)
		r.cluster.EndWatches(configmaps)
		r.settle(5 * time.Hour)
		require.Equal(t, StateForbidden, r.kind(configmaps).State)
		r.cluster.Put(configmaps, doc(configmaps, "default", "d", "1"))
		r.cluster.FailWatch(configmaps, nil)
		r.settle(time.Minute)
		require.NoError(t, r.agree(configmaps), "the watch goes on where it was")
		require.Equal(t, StateWatching, r.kind(configmaps).State)
		r.stop()
	})
}

// TestManyForbiddenKindsBlockNobody: what waits after a refusal holds no place
// among the first lists.
func TestManyForbiddenKindsBlockNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds := []synchronizer.Kind{configmaps}
		for i := range 10 {
			kinds = append(kinds, synchronizer.Kind{Version: "v1", Resource: fmt.Sprint("kind", i)})
		}
		r, d, _ := kindsRig(t, kinds...)
		for _, k := range kinds[1:] {
			d.serve(k)
			r.cluster.FailList(k, synchronizer.ErrForbidden)
		}
		r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
		r.start()
		r.settle(time.Second)
		require.NoError(t, r.agree(configmaps))
		r.stop()
	})
}

// TestKindThatIsNotServedAnyMoreIsKept: only a definition that was deleted
// deletes objects.
func TestKindThatIsNotServedAnyMoreIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		fromCRD bool
		crdErr  error
	}{
		"aggregated API": {},
		"version gone":   {fromCRD: true},
		"no right":       {fromCRD: true, crdErr: synchronizer.ErrForbidden},
		"no answer":      {fromCRD: true, crdErr: errors.New("away")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, d, _ := kindsRig(t, configmaps, widgets)
				if test.fromCRD {
					d.define(widgets)
				} else {
					d.serve(widgets)
				}
				r.cluster.Put(widgets, doc(widgets, "default", "w", "1"))
				r.start()
				r.settle(time.Minute)
				require.Len(t, r.backend.rows(), 1)
				d.do(func() { d.crdErr = test.crdErr })
				d.unserve(widgets)
				r.settle(time.Hour)
				require.Len(t, r.backend.rows(), 1, "kept")
				require.Equal(t, StateNotServed, r.kind(widgets).State)
				require.NotEmpty(t, r.kind(widgets).Error)
				require.Equal(t, 1, r.kind(widgets).Objects)
				r.cluster.PutSilently(widgets, doc(widgets, "default", "v", "1"))
				d.serve(widgets)
				r.settle(11 * time.Minute) // only a list can see it
				require.NoError(t, r.agree(widgets))
				require.Equal(t, StateWatching, r.kind(widgets).State)
				r.stop()
			})
		})
	}
}

// TestDefinitionReplaced: another definition of the same name has other objects.
func TestDefinitionReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d, _ := kindsRig(t, widgets)
		d.lag = 0
		d.define(widgets)
		r.cluster.Put(widgets, doc(widgets, "default", "old", "1"))
		r.start()
		r.settle(time.Minute)
		d.undefine(widgets)
		d.define(widgets)
		r.cluster.Put(widgets, doc(widgets, "default", "new", "1"))
		r.settle(10 * time.Second)
		require.NoError(t, r.agree(widgets))
		r.stop()
	})
}

func TestVeryManyObjectsOfARemovedKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d, _ := kindsRig(t, widgets)
		d.define(widgets)
		for i := range 100 {
			r.cluster.Put(widgets, doc(widgets, "default", fmt.Sprint("w", i), "1"))
		}
		r.start()
		r.settle(time.Minute)
		require.Len(t, r.backend.rows(), 100)
		d.undefine(widgets)
		r.settle(time.Minute)
		require.Empty(t, r.backend.rows(), "held for half a minute, as any disappearance of very many")
		r.stop()
	})
}
