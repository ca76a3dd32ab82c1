// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/apply"
	"synchronizer/internal/dedup"
	"synchronizer/internal/kube/kubefake"
)

// fakeApplier writes into a fake cluster, unless it is told what to answer.
type fakeApplier struct {
	cluster *kubefake.Cluster
	hold    chan struct{} // nil: nothing is held

	mu      sync.Mutex
	results []apply.Result // the next ones
	log     []string
}

var errUndecided = errors.New("503")

func (a *fakeApplier) do(what string, change func()) (apply.Result, error) {
	if a.hold != nil {
		<-a.hold
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log = append(a.log, what)
	if len(a.results) == 0 {
		change()
		return apply.Result{Outcome: apply.Applied}, nil
	}
	result := a.results[0]
	a.results = a.results[1:]
	if result.Reason == apply.ReasonUnavailable {
		return result, errUndecided
	}
	return result, nil
}

func (a *fakeApplier) next(results ...apply.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.results = results
}

func (a *fakeApplier) did() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	log := a.log
	a.log = nil
	return log
}

func (a *fakeApplier) Put(_ context.Context, kind synchronizer.Kind, namespace, name string, desired []byte) (apply.Result, error) {
	return a.do("put "+namespace+"/"+name, func() { a.cluster.Put(kind, desired) })
}

func (a *fakeApplier) Patch(_ context.Context, _ synchronizer.Kind, namespace, name string, change []byte, sum string) (apply.Result, error) {
	return a.do("patch "+namespace+"/"+name+" "+string(change)+" "+sum, func() {})
}

func (a *fakeApplier) Delete(_ context.Context, kind synchronizer.Kind, namespace, name string) (apply.Result, error) {
	return a.do("delete "+namespace+"/"+name, func() { a.cluster.Delete(kind, namespace, name) })
}

func writingRig(t *testing.T, change func(*Options)) (*rig, *fakeApplier, *prometheus.Registry) {
	to, registry := &fakeApplier{}, prometheus.NewRegistry()
	r := newRig(t, func(o *Options) {
		to.cluster = o.Cluster.(*kubefake.Cluster)
		o.Applier, o.Applied, o.Registerer = to, dedup.New(dedup.Options{}), registry
		if change != nil {
			change(o)
		}
	})
	return r, to, registry
}

func (r *rig) say(msg synchronizer.Message) {
	r.backend.link.down <- msg
	synctest.Wait()
}

func statement(event synchronizer.Event, id, name string, body []byte) synchronizer.Message {
	return synchronizer.Message{Event: event, Kind: configmaps, Namespace: "default", Name: name, MsgID: id, Depth: 3, Body: body}
}

func TestStatementsOfTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to, registry := writingRig(t, nil)
		r.start()
		put := statement(synchronizer.EventPut, "1", "c", doc(configmaps, "default", "c", "1"))
		r.say(put)
		require.Equal(t, []string{"put default/c"}, to.did())
		r.settle(time.Minute)
		require.NoError(t, r.agree(configmaps))
		require.Equal(t, []string{"VerifyObject /v1/configmaps default/c", "PutObject /v1/configmaps default/c"}, r.backend.heard(), "one confirmation, and what is asked for")

		put.MsgID, put.Body = "2", doc(configmaps, "default", "c", "2")
		r.say(put)
		r.settle(time.Hour)
		require.Equal(t, []string{"PutObject /v1/configmaps default/c"}, r.backend.heard(), "one confirmation")
		require.NoError(t, r.agree(configmaps))

		change := statement(synchronizer.EventPatch, "3", "c", []byte(`{}`))
		change.Checksum = "sum"
		to.did()
		r.say(change)
		require.Equal(t, []string{"patch default/c {} sum"}, to.did())
		require.Empty(t, r.backend.heard())

		r.say(statement(synchronizer.EventDelete, "4", "c", nil))
		r.settle(time.Minute)
		require.Equal(t, []string{"DeleteObject /v1/configmaps default/c"}, r.backend.heard())
		require.Equal(t, []string{"delete default/c"}, to.did())

		unknown := statement(synchronizer.EventPut, "5", "w", nil)
		unknown.Kind = widgets
		r.say(unknown)
		r.say(statement(synchronizer.EventVerify, "6", "c", nil))
		require.Empty(t, to.did())
		require.Equal(t, []string{"PutObject example.com/v1/widgets default/w"}, r.backend.dropped(synchronizer.DropNotConfigured))
		require.Equal(t, []string{"VerifyObject /v1/configmaps default/c"}, r.backend.dropped(synchronizer.DropUnsupported))

		// Namespaces that are not carried upwards are written all the same.
		there := statement(synchronizer.EventPut, "7", "e", doc(configmaps, "excluded", "e", "1"))
		there.Namespace = "excluded"
		r.say(there)
		require.Equal(t, []string{"put excluded/e"}, to.did())

		// A batch is its items.
		r.say(synchronizer.Message{Event: synchronizer.EventBatch, Kind: configmaps, MsgID: "8", Depth: 3, Items: []synchronizer.Message{
			statement(synchronizer.EventPut, "", "a", doc(configmaps, "default", "a", "1")),
			statement(synchronizer.EventDelete, "", "a", nil),
		}})
		require.Equal(t, []string{"put default/a", "delete default/a"}, to.did(), "in order, for one object")

		to.next(apply.Result{Outcome: apply.Refused, Reason: apply.ReasonMasked})
		r.say(statement(synchronizer.EventPut, "9", "m", doc(configmaps, "default", "m", "1")))
		require.Equal(t, 6.0, testutil.ToFloat64(r.agent.metrics.applied.WithLabelValues("applied", ""))-1)
		require.Equal(t, 1.0, testutil.ToFloat64(r.agent.metrics.applied.WithLabelValues("refused", "masked_value")))
		count, err := testutil.GatherAndCount(registry, "synchronizer_agent_applied_total")
		require.NoError(t, err)
		require.Equal(t, 2, count)
		require.Empty(t, r.backend.faults)
		r.stop()
	})
}

func TestRepeatsOfStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to, _ := writingRig(t, nil)
		r.start()
		put := statement(synchronizer.EventPut, "1", "c", doc(configmaps, "default", "c", "1"))
		other := put
		other.Body = doc(configmaps, "default", "c", "2")
		nameless := statement(synchronizer.EventDelete, "", "n", nil)

		for _, failure := range []apply.Result{{Outcome: apply.Refused, Reason: apply.ReasonQuota}, {Outcome: apply.Failed, Reason: apply.ReasonConflict}} {
			to.next(failure)
			r.say(put)
		}
		require.Len(t, to.did(), 2, "what failed can be tried again")
		r.say(put)
		r.say(put)
		require.Len(t, to.did(), 1)
		require.Equal(t, []string{"PutObject /v1/configmaps default/c"}, r.backend.dropped(synchronizer.DropDuplicate))
		r.say(other)
		require.Len(t, to.did(), 1, "the same MsgId with other content is no repeat")
		r.say(nameless)
		r.say(nameless)
		require.Len(t, to.did(), 2, "without a MsgId nothing is a repeat")

		r.backend.cut()
		r.settle(time.Minute)
		r.say(put)
		require.Empty(t, to.did(), "remembered across links")
		deeper := put
		deeper.Depth++
		r.say(deeper)
		require.Len(t, to.did(), 1, "the whole message counts")

		patch := statement(synchronizer.EventPatch, "2", "c", []byte(`{}`))
		ask := apply.Result{Outcome: apply.Failed, Reason: apply.ReasonChecksum, AskObject: true}
		to.next(ask, ask)
		r.backend.heard()
		r.say(patch)
		r.say(patch)
		require.Len(t, to.did(), 2)
		require.Equal(t, []string{"GetObject /v1/configmaps default/c", "GetObject /v1/configmaps default/c"}, r.backend.heard(), "patches that ask for the object are not suppressed")
		require.Equal(t, 4, r.backend.depths[len(r.backend.depths)-1])
		require.Empty(t, r.backend.bodies[len(r.backend.bodies)-1])
		patch.Depth = synchronizer.MaxDepth
		to.next(ask)
		r.say(patch)
		require.Empty(t, r.backend.heard())
		require.Len(t, r.backend.dropped(synchronizer.DropTooDeep), 1)
		r.stop()
	})
}

func TestStatementsThatNobodyDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to, _ := writingRig(t, nil)
		r.start()
		undecided := apply.Result{Outcome: apply.Failed, Reason: apply.ReasonUnavailable}
		to.next(slices.Repeat([]apply.Result{undecided}, 3)...)
		put := statement(synchronizer.EventPut, "1", "c", doc(configmaps, "default", "c", "1"))
		r.say(put)
		r.say(statement(synchronizer.EventDelete, "2", "c", nil))
		require.Len(t, to.did(), 1, "the deletion waits")
		r.settle(10 * time.Second)
		require.Equal(t, []string{"put default/c", "put default/c", "put default/c", "delete default/c"}, to.did())

		to.next(slices.Repeat([]apply.Result{undecided}, writeTries)...)
		r.say(statement(synchronizer.EventPut, "3", "d", doc(configmaps, "default", "d", "1")))
		r.settle(time.Minute)
		require.Len(t, to.did(), writeTries)
		require.Equal(t, 1.0, testutil.ToFloat64(r.agent.metrics.applied.WithLabelValues("failed", "unavailable")))

		to.next(slices.Repeat([]apply.Result{undecided}, 20)...) // the end does not wait for it
		r.say(statement(synchronizer.EventPut, "4", "e", doc(configmaps, "default", "e", "1")))
		r.stop()
	})
}

// TestStatementsWait: while the API server does not answer, a bounded part of
// what the backend says is read, and requests of other kinds wait behind it.
func TestStatementsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to, _ := writingRig(t, nil)
		to.hold = make(chan struct{})
		r.start()
		body := make([]byte, 1<<20)
		for i := range 64 {
			r.backend.link.down <- statement(synchronizer.EventPut, fmt.Sprint(i), fmt.Sprint("c", i), body)
		}
		synctest.Wait()
		unread := len(r.backend.link.down)
		require.Greater(t, unread, 64-writerBytes>>20-2)
		r.settle(writerPatience)
		require.Len(t, r.backend.dropped(synchronizer.DropBacklog), 1)
		require.Less(t, len(r.backend.link.down), unread, "it is read on")
		to.next(slices.Repeat([]apply.Result{{Outcome: apply.Refused, Reason: apply.ReasonInvalid}}, 64)...)
		close(to.hold)
		synctest.Wait()
		require.Len(t, to.did(), 63)
		r.stop()
	})
}
