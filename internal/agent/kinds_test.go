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

func TestWithoutTheRightToWatchDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d, log := kindsRig(t, configmaps, widgets)
		d.deny = synchronizer.ErrForbidden
		r.start()
		r.settle(time.Hour)
		looks := d.times("groups")
		require.GreaterOrEqual(t, looks, 55)
		require.LessOrEqual(t, looks, 65)
		require.Equal(t, 1, strings.Count(log.String(), "cannot be watched"))
		require.Contains(t, r.agent.Status().Discovery, "every minute")
		d.define(widgets)
		r.cluster.Put(widgets, doc(widgets, "default", "w", "1"))
		r.settle(time.Minute)
		require.NoError(t, r.agree(widgets))
		r.stop()
	})
}

func TestWithoutDiscovery(t *testing.T) {
	for name, err := range map[string]error{"forbidden": synchronizer.ErrForbidden, "broken": errors.New("broken")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, d, _ := kindsRig(t, configmaps, widgets)
				d.fail, d.deny = err, err
				r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
				r.start()
				r.settle(time.Second)
				require.NoError(t, r.agree(configmaps), "requests find out")
				r.settle(time.Hour)
				require.Less(t, r.cluster.Lists(widgets), 150, "paced")
				d.define(widgets)
				r.cluster.Put(widgets, doc(widgets, "default", "w", "1"))
				r.settle(2 * time.Minute)
				require.NoError(t, r.agree(configmaps, widgets))
				r.stop()
			})
		})
	}
}

// TestAggregatedServerIsDown: what nobody can tell is asked for.
func TestAggregatedServerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d, _ := kindsRig(t, widgets, configmaps)
		d.unknown[synchronizer.Kind{Group: widgets.Group, Version: widgets.Version}] = true
		down := errors.New("503")
		r.cluster.Serve(widgets)
		r.cluster.FailList(widgets, down)
		r.start()
		r.settle(time.Hour)
		require.Equal(t, StateFailing, r.kind(widgets).State)
		r.cluster.FailList(widgets, nil)
		r.cluster.Put(widgets, doc(widgets, "default", "w", "1"))
		r.settle(time.Minute)
		require.NoError(t, r.agree(widgets))
		r.stop()
	})
}

// TestDiscoveryIsAheadOfTheServer: a kind that discovery has and lists have not.
func TestDiscoveryIsAheadOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d, _ := kindsRig(t, widgets)
		d.do(func() { d.kinds[widgets] = true })
		r.start()
		r.settle(time.Hour)
		require.Less(t, r.cluster.Lists(widgets), 140, "paced")
		r.cluster.Put(widgets, doc(widgets, "default", "w", "1"))
		r.settle(31 * time.Second)
		require.NoError(t, r.agree(widgets))
		r.stop()
	})
}

func TestWildcards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d, _ := kindsRig(t, synchronizer.Kind{Group: "*", Version: "*", Resource: "*"}, deployments)
		secrets := synchronizer.Kind{Version: "v1", Resource: "secrets"}
		d.serve(secrets)
		r.cluster.Put(secrets, doc(secrets, "default", "s", "1"))
		r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
		r.cluster.Put(deployments, doc(deployments, "default", "web", "1"))
		r.start()
		r.settle(time.Second)
		require.NoError(t, r.agree(configmaps, deployments))
		require.Zero(t, r.cluster.Lists(secrets))
		require.Equal(t, []string{"*/*/*"}, r.agent.Status().Wildcards)

		d.define(widgets)
		r.cluster.Put(widgets, doc(widgets, "default", "w", "1"))
		r.settle(10 * time.Second)
		require.NoError(t, r.agree(configmaps, deployments, widgets), "a kind that comes")
		r.backend.ask(widgets, "default", "w")
		r.settle(time.Second)
		require.Empty(t, r.backend.dropped(synchronizer.DropNotConfigured))

		d.undefine(widgets)
		r.settle(time.Minute)
		require.NoError(t, r.agree(configmaps, deployments))
		require.Equal(t, StateAwaited, r.states()[widgets.String()])
		r.settle(time.Hour)
		require.NotContains(t, r.states(), widgets.String(), "what a wildcard meant is forgotten when it is gone")
		d.define(widgets)
		r.cluster.Put(widgets, doc(widgets, "default", "v", "1"))
		r.settle(10 * time.Second)
		require.NoError(t, r.agree(configmaps, deployments, widgets))
		r.stop()
	})
}

func TestWildcardsNeedDiscovery(t *testing.T) {
	o := newRig(t, nil).agent.options
	o.Kinds = []KindConfig{{Kind: synchronizer.Kind{Group: "apps", Version: "*", Resource: "*"}, Strategy: StrategyCopy}}
	_, err := New(o)
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
}

// TestIdleRequests counts what 40 kinds cost of which 15 are absent, with watches
// that the API server ends every five minutes.
func TestIdleRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kinds []synchronizer.Kind
		for i := range 40 {
			kinds = append(kinds, synchronizer.Kind{Group: fmt.Sprintf("group%d.example.org", i/3), Version: "v1", Resource: fmt.Sprint("kinds", i)})
		}
		r, d, _ := kindsRig(t, kinds...)
		for _, k := range kinds[:25] {
			d.serve(k)
		}
		r.start()
		r.settle(10 * time.Minute)
		count := func() (n int) {
			for _, k := range kinds {
				n += r.cluster.Lists(k) + r.cluster.Watches(k) + r.cluster.Gets(k)
			}
			return n + d.requests()
		}
		most, last := 0, count()
		for minute := range 120 {
			if minute%5 == 0 {
				for i, k := range kinds[:25] {
					r.settle(time.Duration(i%5) * time.Second)
					r.cluster.EndWatches(k)
				}
			}
			r.settle(time.Minute)
			now := count()
			most, last = max(most, now-last), now
		}
		t.Logf("at most %d requests in a minute", most)
		require.LessOrEqual(t, most, 30)
		r.stop()
	})
}
