// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/kube/kubefake"
)

func newContext(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// emptySpec gives hollow objects the empty spec that they have at the storage
// API server.
type emptySpec struct{ *kubefake.Cluster }

func (c emptySpec) empty(o synchronizer.Object) synchronizer.Object {
	o.Body = append(append([]byte(nil), o.Body[:len(o.Body)-1]...), `,"spec":{}}`...)
	return o
}

func (c emptySpec) List(ctx context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	return c.Cluster.List(ctx, kind, func(o synchronizer.Object) error { return each(c.empty(o)) })
}

func (c emptySpec) Watch(ctx context.Context, kind synchronizer.Kind, from string, each func(synchronizer.WatchEvent) error) error {
	return c.Cluster.Watch(ctx, kind, from, func(e synchronizer.WatchEvent) error {
		if e.Type != synchronizer.WatchBookmark {
			e.Object = c.empty(e.Object)
		}
		return each(e)
	})
}

func newHollowRig(t *testing.T) *rig {
	return newRig(t, func(o *Options) {
		withHollow(o)
		o.Kinds = o.Kinds[2:]
		o.Select = func(KindConfig) synchronizer.Cluster { return emptySpec{o.Cluster.(*kubefake.Cluster)} }
	})
}

func report(name string, version int) []byte {
	findings := strings.Repeat(fmt.Sprintf(`{"finding":%d},`, version), 40)
	return fmt.Appendf(nil, `{"metadata":{"namespace":"default","name":%q},"spec":{"findings":[%s]}}`, name, findings[:len(findings)-1])
}

func (r *rig) requireFindings(version int, names ...string) {
	r.t.Helper()
	for _, name := range names {
		row := r.backend.objects[fmt.Sprint(profiles, " default/", name)]
		require.Equal(r.t, 40, strings.Count(string(row.body), fmt.Sprintf(`{"finding":%d}`, version)))
		sum, err := checksum.ObjectV1(row.body)
		require.NoError(r.t, err)
		require.Equal(r.t, sum, row.checksum)
	}
	for i, said := range r.backend.log {
		if !strings.HasPrefix(said, "Verify") && !strings.HasPrefix(said, "Delete") {
			require.Equal(r.t, 40, strings.Count(r.backend.bodies[i], "finding\""), "hollow: %s", r.backend.bodies[i])
		}
	}
}

func TestB001ListAndWatchGiveOnlyMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHollowRig(t)
		for i := range 50 {
			r.cluster.Put(profiles, report(fmt.Sprint("p", i), 1))
		}
		r.start()
		r.settle(time.Second)
		require.NoError(t, r.agree(profiles))
		r.requireFindings(1, "p0", "p49")
		require.Equal(t, 50, r.cluster.Gets(profiles))

		r.cluster.Put(profiles, report("new", 1))
		r.settle(10 * time.Second)
		r.requireFindings(1, "new")
		require.Equal(t, 51, r.cluster.Gets(profiles))
		r.cluster.Put(profiles, report("new", 2))
		synctest.Wait()
		r.requireFindings(2, "new")
		require.Equal(t, 52, r.cluster.Gets(profiles))

		for v := range 100 { // merged
			r.cluster.Put(profiles, report("p1", 10+v))
			r.settle(10 * time.Millisecond)
		}
		r.settle(longestWindow)
		r.requireFindings(109, "p1")
		require.LessOrEqual(t, r.cluster.Gets(profiles), 52+4)
		require.NoError(t, r.agree(profiles))

		gets, said := r.cluster.Gets(profiles), len(r.backend.log)
		lists := r.cluster.Lists(profiles)
		r.settle(time.Hour)
		require.Greater(t, r.cluster.Lists(profiles)-lists, 6, "listed again and again")
		require.Equal(t, gets, r.cluster.Gets(profiles), "nothing has changed")
		require.Len(t, r.backend.log, said)

		r.cluster.Delete(profiles, "default", "new")
		synctest.Wait()
		require.NoError(t, r.agree(profiles))
		require.Empty(t, r.backend.faults)
		r.stop()
	})
}

func TestHollowRestartSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHollowRig(t)
		for i := range 1000 { // more than are read at once
			r.cluster.Put(profiles, report(fmt.Sprint("p", i), 1))
		}
		r.start()
		r.settle(time.Minute)
		require.NoError(t, r.agree(profiles))
		require.Equal(t, 1, r.cluster.Lists(profiles))
		r.stop()
		again := newRig(t, func(o *Options) {
			o.Kinds = []KindConfig{{Kind: profiles, Strategy: StrategyCopy, Hollow: true}}
			o.Cluster = emptySpec{r.cluster}
		})
		again.cluster, again.backend.objects = r.cluster, r.backend.objects
		again.start()
		again.settle(time.Second)
		require.Len(t, again.backend.heard(), 1000)
		require.Zero(t, again.backend.asked)
		again.stop()
	})
}

func TestHollowChangesThatNoWatchShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHollowRig(t)
		r.cluster.Put(profiles, report("a", 1))
		r.cluster.Put(profiles, report("b", 1))
		r.start()
		r.cluster.PutSilently(profiles, report("a", 2))
		r.cluster.PutSilently(profiles, report("c", 1))
		r.cluster.DeleteSilently(profiles, "default", "b")
		r.settle(8 * time.Minute) // 5, varied by half
		require.NoError(t, r.agree(profiles))
		r.requireFindings(2, "a")
		r.stop()
	})
}

func TestHollowReadsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHollowRig(t)
		r.cluster.Put(profiles, report("a", 1))
		r.start()
		r.cluster.FailGet(profiles, errors.New("broken"))
		r.cluster.Put(profiles, report("a", 2))
		for i := range 20 {
			r.cluster.Put(profiles, report(fmt.Sprint("b", i), 1))
		}
		r.settle(10 * time.Minute)
		r.requireFindings(1, "a")
		require.Equal(t, 21, r.kind(profiles).Dirty)
		require.Less(t, r.cluster.Gets(profiles), 21*35, "with back-off")
		require.Greater(t, testutil.ToFloat64(r.agent.streams[profiles].metrics.failed), 21.0)
		r.cluster.FailGet(profiles, nil)
		r.settle(time.Minute)
		require.NoError(t, r.agree(profiles))
		r.requireFindings(2, "a")
		r.stop()
	})
}

func TestHollowObjectsAreFilteredByNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHollowRig(t)
		r.cluster.Put(profiles, []byte(`{"metadata":{"namespace":"excluded","name":"x"},"spec":{"a":1}}`))
		r.start()
		r.settle(time.Minute)
		require.Empty(t, r.backend.heard())
		require.Zero(t, r.cluster.Gets(profiles))
		r.stop()
	})
}
