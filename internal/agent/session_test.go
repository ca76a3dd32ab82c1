// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/policy"
)

func TestFinalAtTheFirstConnect(t *testing.T) {
	for _, err := range []error{synchronizer.ErrUnauthorized, synchronizer.ErrUnsupportedVersion} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			r.backend.setRefuse(fmt.Errorf("dialing: %w", err))
			r.start()
			require.ErrorIs(t, <-r.done, err)
			require.Equal(t, 1, r.backend.dials)
			require.False(t, r.agent.Ready())
			require.Zero(t, r.cluster.Lists(configmaps))
		})
	}
}

func TestFirstConnectIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		away := errors.New("away")
		r.backend.setRefuse(away)
		started := time.Now()
		r.start()
		require.ErrorIs(t, <-r.done, away)
		require.LessOrEqual(t, time.Since(started), 15*time.Minute)
		require.Greater(t, time.Since(started), 13*time.Minute)
		require.Greater(t, r.backend.dials, 15)
	})
}

func TestStopWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.backend.setRefuse(errors.New("away"))
		r.start()
		r.settle(time.Minute)
		r.stop()
	})
}

func TestEverythingIsRetriedLater(t *testing.T) {
	for _, err := range []error{synchronizer.ErrUnauthorized, synchronizer.ErrUnsupportedVersion, errors.New("away")} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			r.start()
			r.backend.setRefuse(err)
			r.backend.cut()
			r.settle(24 * time.Hour)
			dials := r.backend.dials
			require.Greater(t, dials, 24*60, "at most a minute between tries")
			require.Less(t, dials, 24*60*4)
			r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
			r.backend.setRefuse(nil)
			r.settle(time.Minute + time.Second)
			require.NoError(t, r.agree(configmaps))
			r.stop()
		})
	}
}

func TestOnlyAGoodConnectionResetsTheBackOff(t *testing.T) {
	tries := func(t *testing.T, lives time.Duration) (dials int) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			r.start()
			for started := time.Now(); time.Since(started) < 2*time.Hour; {
				r.settle(lives)
				if r.agent.Status().Connected {
					r.backend.cut()
				}
			}
			dials = r.backend.dials
			r.stop()
		})
		return dials
	}
	require.Less(t, tries(t, 5*time.Second), 300, "30 s on average between links that break at once")
	require.Greater(t, tries(t, 61*time.Second), 2*54, "half a second after good ones")
}

func TestOptionsAreChecked(t *testing.T) {
	valid := func() Options {
		return Options{
			Cluster: nil, Dialer: newBackend(), Policy: policy.New(policy.LinkV1),
			Drop:  func(synchronizer.DropReason, string) {},
			Kinds: []KindConfig{{Kind: configmaps, Strategy: StrategyCopy}},
		}
	}
	for name, change := range map[string]func(*Options){
		"no cluster":  func(o *Options) {},
		"strategy":    func(o *Options) { o.Cluster, o.Kinds[0].Strategy = emptyCluster(), "sideways" },
		"mode":        func(o *Options) { o.Cluster, o.Kinds[0].Mode = emptyCluster(), "sideways" },
		"twice":       func(o *Options) { o.Cluster, o.Kinds = emptyCluster(), append(o.Kinds, o.Kinds[0]) },
		"not a kind":  func(o *Options) { o.Cluster, o.Kinds[0].Kind.Version = emptyCluster(), "" },
		"no dropfunc": func(o *Options) { o.Cluster, o.Drop = emptyCluster(), nil },
	} {
		t.Run(name, func(t *testing.T) {
			o := valid()
			change(&o)
			_, err := New(o)
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
		})
	}
}

func TestStopSendsWhatWasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.start()
		resume := r.backend.pause()
		for i := range 40 {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
		}
		synctest.Wait()
		known := r.agent.streams[configmaps].machine
		r.cancel()
		synctest.Wait()
		resume()
		require.NoError(t, <-r.done)
		require.Len(t, slices.DeleteFunc(r.backend.heard(), func(s string) bool { return s[0] != 'V' }), len(known.objects))
		require.Equal(t, 1001, r.backend.link.closed)
	})
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.start()
		r.backend.pause()
		for i := range 40 {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
		}
		synctest.Wait()
		started := time.Now()
		r.stop()
		require.Equal(t, flushTime, time.Since(started))
	})
}
