// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/kube/kubefake"
	"synchronizer/internal/rawjson"
)

// scripted is a cluster whose lists are empty, at resourceVersion 1, and whose
// watches do what the test says.
type scripted struct {
	*kubefake.Cluster
	watch func(ctx context.Context, n int, each func(synchronizer.WatchEvent) error) error

	mu    sync.Mutex
	lists int
	froms []string // of the watches
}

func (s *scripted) List(context.Context, synchronizer.Kind, func(synchronizer.Object) error) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	return "1", nil
}

func (s *scripted) Watch(ctx context.Context, _ synchronizer.Kind, from string, each func(synchronizer.WatchEvent) error) error {
	s.mu.Lock()
	s.froms = append(s.froms, from)
	n := len(s.froms)
	s.mu.Unlock()
	return s.watch(ctx, n, each)
}

func (s *scripted) counts() (lists, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists, len(s.froms)
}

func newScriptedRig(t *testing.T, watch func(ctx context.Context, n int, each func(synchronizer.WatchEvent) error) error) (*rig, *scripted) {
	s := &scripted{Cluster: kubefake.New(), watch: watch}
	return newRig(t, func(o *Options) {
		o.Cluster, o.Kinds = s, []KindConfig{{Kind: deployments, Strategy: StrategyPatch}}
	}), s
}

func versioned(typ synchronizer.WatchEventType, version, value string) synchronizer.WatchEvent {
	return synchronizer.WatchEvent{Type: typ, Object: synchronizer.Object{
		Namespace: "default", Name: "web", UID: "u", ResourceVersion: version,
		Body: fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"web","uid":"u","resourceVersion":%q},"data":%q}`, version, value),
	}}
}

func TestB079ResourceVersionsAreOpaque(t *testing.T) {
	versions := []string{"99999", "100000", "36028797018963968", "36028797018963969", "abc-7", "8"} // and one that is lower as a number
	for name, pause := range map[string]time.Duration{"one by one": 10 * time.Second, "in a burst": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := make(chan synchronizer.WatchEvent)
				r, s := newScriptedRig(t, func(ctx context.Context, _ int, each func(synchronizer.WatchEvent) error) error {
					for {
						select {
						case e := <-events:
							if err := each(e); err != nil {
								return err
							}
						case <-ctx.Done():
							return ctx.Err()
						}
					}
				})
				if pause == 0 {
					r.agent.streams[deployments].config.Strategy = StrategyCopy
				}
				r.start()
				send := func(e synchronizer.WatchEvent) {
					events <- e
					if r.settle(pause); pause == 0 {
						return
					}
					if e.Type != synchronizer.WatchDeleted {
						version, err := rawjson.Get([]byte(r.row(deployments, "default/web")), "metadata", "resourceVersion")
						require.NoError(t, err)
						require.Equal(t, fmt.Sprintf("%q", e.Object.ResourceVersion), string(version))
					}
				}
				send(versioned(synchronizer.WatchAdded, "5", "first"))
				for _, v := range versions {
					send(versioned(synchronizer.WatchModified, v, v))
				}
				r.settle(longestWindow)
				require.Contains(t, r.row(deployments, "default/web"), `"data":"8"`)
				r.backend.heard()
				send(versioned(synchronizer.WatchModified, "8", "8"))
				r.settle(minorWindow)
				require.Empty(t, r.backend.heard(), "the same version again")
				events <- versioned(synchronizer.WatchDeleted, "7", "")
				r.settle(0)
				require.Equal(t, []string{"DeleteObject apps/v1/deployments default/web"}, r.backend.heard())
				require.Empty(t, r.backend.faults)
				require.Equal(t, []string{"1"}, s.froms)
				r.stop()
			})
		})
	}
}

func TestB080DeletedWhileTheWatchWasBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for _, kind := range []synchronizer.Kind{configmaps, deployments} {
			r.cluster.Put(kind, doc(kind, "default", "x", "1"))
			r.cluster.Put(kind, doc(kind, "other", "x", "1"))
		}
		r.start()
		r.settle(time.Minute)
		r.backend.heard()
		r.cluster.FailWatch(deployments, errors.New("away"))
		r.cluster.BreakWatches(deployments)
		synctest.Wait()
		r.cluster.Delete(deployments, "default", "x")
		r.cluster.CompactBefore(r.cluster.ResourceVersion())
		r.cluster.FailWatch(deployments, nil)
		r.settle(time.Minute)
		require.Equal(t, 2, r.cluster.Lists(deployments))
		require.Equal(t, []string{"DeleteObject apps/v1/deployments default/x"}, r.backend.heard())
		r.stop()

		// What a list or watch can give of a deleted object: all, its key, or nothing.
		for _, selecting := range []bool{false, true} {
			m := newPlayer(traits{selecting: selecting})
			m.play("up list x:1.a end")
			for _, it := range []item{{}, {key: keyOf("ns", "")}, {key: keyOf("ns", "x")}} {
				m.changed(m.now, synchronizer.WatchDeleted, "", it)
				require.Empty(t, m.play("+0s"), "of no known object")
			}
			m.changed(m.now, synchronizer.WatchDeleted, "", item{key: keyOf("", "x")})
			said := m.play("+0s")
			if selecting {
				require.Equal(t, "read x", said)
				said = m.play("got x")
			}
			require.Equal(t, "delete x", said)
		}
	})
}

// TestWatchFaultsDoNotLoop: however a watch misbehaves, an API server gets few
// requests a minute, and what works afterwards is taken.
func TestWatchFaultsDoNotLoop(t *testing.T) {
	faults := map[string]struct {
		watch              func(each func(synchronizer.WatchEvent) error) error
		lists, watches     int // at most, in the first minute
		minLists, minWatch int
	}{
		"ends at once":    {func(func(synchronizer.WatchEvent) error) error { return nil }, 1, 12, 1, 4},
		"is gone at once": {func(func(synchronizer.WatchEvent) error) error { return synchronizer.ErrGone }, 12, 12, 4, 4},
		"gives one event and is gone": {func(each func(synchronizer.WatchEvent) error) error {
			return errors.Join(each(versioned(synchronizer.WatchModified, fmt.Sprint(time.Now().UnixNano()), "x")), synchronizer.ErrGone)
		}, 12, 12, 4, 4},
		"gives the same event again and again": {func(each func(synchronizer.WatchEvent) error) error {
			return each(versioned(synchronizer.WatchModified, "9", "x"))
		}, 1, 12, 1, 4},
		"cannot be read": {func(func(synchronizer.WatchEvent) error) error {
			return fmt.Errorf("reading event: %w", rawjson.ErrSyntax)
		}, 8, 12, 3, 4},
		"gives an event of an unknown type": {func(each func(synchronizer.WatchEvent) error) error {
			return each(synchronizer.WatchEvent{Type: 77, Object: synchronizer.Object{ResourceVersion: "8"}})
		}, 1, 12, 1, 4},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var healed sync.Once
				heal := make(chan struct{})
				r, s := newScriptedRig(t, func(ctx context.Context, _ int, each func(synchronizer.WatchEvent) error) error {
					select {
					case <-heal:
					default:
						return fault.watch(each)
					}
					err := each(versioned(synchronizer.WatchModified, "90", "healed"))
					<-ctx.Done()
					return errors.Join(err, ctx.Err())
				})
				r.start()
				r.settle(time.Minute)
				lists, watches := s.counts()
				require.LessOrEqual(t, lists, fault.lists)
				require.LessOrEqual(t, watches, fault.watches)
				require.GreaterOrEqual(t, lists, fault.minLists)
				require.GreaterOrEqual(t, watches, fault.minWatch)
				healed.Do(func() { close(heal) })
				r.settle(time.Minute)
				require.Contains(t, r.row(deployments, "default/web"), "healed")
				r.stop()
			})
		})
	}
}
