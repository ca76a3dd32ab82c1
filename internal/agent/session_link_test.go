// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// TestFailedHalfWay: a link breaks in the middle of a Send. What it had taken may be
// lost as well as what it had not, so all of it is said over the next one.
func TestFailedHalfWay(t *testing.T) {
	for name, test := range map[string]struct {
		blocked, away time.Duration
		full          bool // the link takes nothing
	}{
		"back at once":                                    {blocked: 20 * time.Second},
		"back when nobody knows what was sent":            {blocked: 20 * time.Second, away: 10 * time.Minute},
		"blocked longer than it is known what was sent":   {blocked: 150 * time.Second, full: true},
		"blocked and away longer than that, as it may be": {blocked: 150 * time.Second, away: 10 * time.Minute, full: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				const objects = 40 // a link takes 8 that nobody reads
				for i := range objects {
					r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
					r.cluster.Put(deployments, doc(deployments, "default", fmt.Sprint("d", i), "1"))
				}
				r.start()
				r.settle(time.Minute)
				require.NoError(t, r.agree(configmaps, deployments))

				resume := r.backend.pause()
				synctest.Wait()
				for test.full && len(r.backend.link.up) < cap(r.backend.link.up) {
					r.backend.link.up <- synchronizer.Message{}
				}
				for i := range objects {
					r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "2"))
					if i%2 == 0 {
						r.cluster.Delete(deployments, "default", fmt.Sprint("d", i))
					}
				}
				r.settle(test.blocked)
				require.Len(t, r.backend.link.up, cap(r.backend.link.up), "a Send is blocked")
				r.backend.setRefuse(errServerDown)
				r.backend.cut()
				resume()
				r.settle(test.away)
				r.backend.setRefuse(nil)
				r.settle(2 * time.Minute)
				require.NoError(t, r.agree(configmaps, deployments))
				r.stop()
			})
		})
	}
}

// lateDialer connects when it is told, also when nobody wants the link any more.
type lateDialer struct {
	*backend
	slow    bool
	release chan struct{}
}

func (d *lateDialer) Dial(ctx context.Context) (synchronizer.Link, error) {
	if d.slow {
		<-d.release
	}
	return d.backend.Dial(context.WithoutCancel(ctx))
}

// TestLinkGainedAfterStop: a link that was dialed before the stop and comes after it
// is closed and never used, at the first connect and later.
func TestLinkGainedAfterStop(t *testing.T) {
	for name, later := range map[string]bool{"at the first connect": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &lateDialer{slow: !later, release: make(chan struct{})}
				r := newRig(t, func(o *Options) {
					d.backend = o.Dialer.(*backend)
					o.Dialer = d
				})
				r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
				r.start()
				if later {
					r.settle(time.Minute)
					d.slow = true
					r.backend.cut()
					r.settle(time.Minute)
				}
				before := r.backend.dials
				r.backend.heard()
				r.cancel()
				synctest.Wait()
				close(d.release)
				require.NoError(t, <-r.done)
				require.Equal(t, before+1, r.backend.dials, "it was gained")
				require.Equal(t, closeGoingAway, r.backend.link.closed)
				require.Empty(t, r.backend.heard(), "and not used")
			})
		})
	}
}
