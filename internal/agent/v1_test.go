// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

const (
	putWeb    = "PutObject apps/v1/deployments default/web"
	patchWeb  = "PatchObject apps/v1/deployments default/web"
	verifyWeb = "VerifyObject apps/v1/deployments default/web"
)

// change puts a state of the Deployment and returns what the backend heard.
func (r *rig) change(n int) []string {
	r.backend.heard()
	r.cluster.Put(deployments, annotated(n))
	r.settle(2 * longestWindow)
	return r.backend.heard()
}

func TestPatchesAgainstTheBaseline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cluster.Put(deployments, annotated(0))
		r.start()
		r.settle(time.Minute)
		require.Equal(t, []string{patchWeb}, r.change(1), "the first sync was answered, which is a baseline")
		body := r.backend.bodies[len(r.backend.bodies)-1]
		require.Equal(t, `{"metadata":{"resourceVersion":"3","annotations":{"n":"1"}}}`, body)

		require.Empty(t, r.change(1), "nothing but the resourceVersion")
		require.Equal(t, []string{patchWeb}, r.change(2), "against what was sent, not against what was seen")

		r.backend.heard()
		r.cluster.Put(deployments, []byte(`{"metadata":{"namespace":"default","name":"web","annotations":{"n":"2"}},"spec":{"replicas":null}}`))
		r.settle(time.Minute)
		require.Equal(t, []string{putWeb}, r.backend.heard(), "a patch cannot say null")
		require.Equal(t, []string{patchWeb}, r.change(3))
		r.cluster.Put(deployments, []byte(`{"metadata":{"namespace":"default","name":"web"},"spec":{"replicas":9007199254740993}}`))
		r.settle(time.Minute)
		require.Equal(t, []string{putWeb}, r.backend.heard(), "nor what float64 cannot")
		require.NoError(t, r.agree(deployments))
		require.Empty(t, r.backend.faults)
		r.stop()
		require.Zero(t, r.agent.baselines.Len(), "a stream that is stopped leaves nothing behind")
	})
}

func TestBaselinesAreDropped(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(r *rig)
		want []string // of the next change
	}{
		"link breaks":       {func(r *rig) { r.backend.cut() }, []string{putWeb}},
		"the backend asks":  {func(r *rig) { r.backend.ask(deployments, "default", "web") }, []string{patchWeb}}, // and was answered
		"created again":     {func(r *rig) { r.cluster.Delete(deployments, "default", "web") }, []string{verifyWeb, putWeb}},
		"nothing happens":   {func(*rig) {}, []string{patchWeb}},
		"the watch expires": {func(r *rig) { r.cluster.ExpireWatches(deployments) }, []string{patchWeb}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.cluster.Put(deployments, annotated(0))
				r.start()
				r.settle(10 * time.Minute)
				require.Equal(t, []string{patchWeb}, r.change(1))
				r.settle(10 * time.Minute)
				test.do(r)
				r.settle(10 * time.Minute)
				require.Equal(t, test.want, r.change(2))
				require.NoError(t, r.agree(deployments))
				require.Empty(t, r.backend.faults)
				r.stop()
			})
		})
	}
}

func TestAQuestionOfTheBackendEndsTheBaseline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cluster.Put(deployments, annotated(0))
		r.start()
		r.settle(time.Minute)
		r.cluster.FailGet(deployments, errors.New("broken"))
		delete(r.backend.objects, "apps/v1/deployments default/web") // a database that was restored
		r.backend.ask(deployments, "default", "web")
		synctest.Wait()
		require.Equal(t, []string{putWeb}, r.change(1))
		require.Empty(t, r.backend.faults)
		r.stop()
	})
}

func TestCopyNeverPatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Kinds[1].Strategy = StrategyCopy })
		r.cluster.Put(deployments, annotated(0))
		r.start()
		r.settle(time.Minute)
		for n := 1; n < 5; n++ {
			require.Equal(t, []string{putWeb}, r.change(n))
		}
		require.Zero(t, r.agent.baselines.Len())
		r.stop()
	})
}

// limited refuses one message as too large for the link, without breaking it.
type limited struct {
	*backend
	next bool
}

type limitedLink struct {
	synchronizer.Link
	by *limited
}

func (l *limited) Dial(ctx context.Context) (synchronizer.Link, error) {
	link, err := l.backend.Dial(ctx)
	return limitedLink{link, l}, err
}

func (l limitedLink) Send(ctx context.Context, msgs ...synchronizer.Message) error {
	if l.by.next {
		l.by.next = false
		return fmt.Errorf("sending: %w", synchronizer.ErrTooLarge)
	}
	return l.Link.Send(ctx, msgs...)
}

func TestWhatIsTooLargeForTheLinkIsNoBaseline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var link *limited
		r := newRig(t, func(o *Options) {
			link = &limited{backend: o.Dialer.(*backend)}
			o.Dialer = link
		})
		r.cluster.Put(deployments, annotated(0))
		r.start()
		r.settle(time.Minute)
		link.next = true
		require.Empty(t, r.change(1))
		require.Equal(t, []string{putWeb}, r.change(2))
		require.NoError(t, r.agree(deployments))
		r.stop()
	})
}
