// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

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
