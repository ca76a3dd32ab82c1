// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/apply"
	"synchronizer/internal/telemetry/traceparent"
)

const (
	oneTrace     = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	anotherTrace = "00-11111111111111111111111111111111-00f067aa0ba902b7-01"
)

// tracedApplier notes in which trace it was called.
type tracedApplier struct {
	Applier
	traces []string
}

func (a *tracedApplier) Put(ctx context.Context, kind synchronizer.Kind, namespace, name string, desired []byte) (apply.Result, error) {
	a.traces = append(a.traces, traceparent.FromContext(ctx))
	return a.Applier.Put(ctx, kind, namespace, name, desired)
}

// TestRepeatInAnotherTrace: the trace of a statement reaches who writes it, and says
// nothing of the object: the same statement in another trace, or in none, is a repeat.
func TestRepeatInAnotherTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var traced *tracedApplier
		r, to, _ := writingRig(t, func(o *Options) {
			traced = &tracedApplier{Applier: o.Applier}
			o.Applier = traced
		})
		r.start()
		put := statement(synchronizer.EventPut, "1", "c", doc(configmaps, "default", "c", "1"))
		for _, trace := range []string{oneTrace, anotherTrace, ""} {
			put.TraceParent = trace
			r.say(put)
		}
		require.Len(t, to.did(), 1)
		require.Equal(t, []string{oneTrace}, traced.traces)
		require.Equal(t, []string{
			"PutObject /v1/configmaps default/c traceId=11111111111111111111111111111111",
			"PutObject /v1/configmaps default/c",
		}, r.backend.dropped(synchronizer.DropDuplicate), "a drop is named with its trace")
		r.stop()
	})
}

// TestAnswersStayInTheTrace of the question, also those to a reconciliation; what is
// said by itself is in none.
func TestAnswersStayInTheTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
		r.start()
		require.NotEmpty(t, r.backend.heard())
		require.Empty(t, r.backend.traces[len(r.backend.traces)-1])
		r.say(synchronizer.Message{Event: synchronizer.EventGet, Kind: configmaps, Namespace: "default", Name: "c", MsgID: "m", Depth: 3, TraceParent: oneTrace})
		require.Equal(t, []string{"PutObject /v1/configmaps default/c"}, r.backend.heard())
		require.Equal(t, oneTrace, r.backend.traces[len(r.backend.traces)-1])
		r.say(synchronizer.Message{
			Event: synchronizer.EventBatch, BatchType: "reconciliation", Kind: configmaps, MsgID: "m", Depth: 3, TraceParent: anotherTrace,
			Items: []synchronizer.Message{{Event: synchronizer.EventVerify, Kind: configmaps, Namespace: "default", Name: "gone", ResourceVersion: 1}},
		})
		require.Contains(t, r.backend.heard(), "DeleteObject /v1/configmaps default/gone")
		require.Equal(t, anotherTrace, r.backend.traces[len(r.backend.traces)-1])
		r.stop()
	})
}
