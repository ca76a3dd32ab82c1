// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"synchronizer"
	"synchronizer/internal/telemetry/tracing"
)

const oneTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestTransactionsAreSpans of the traces of their records; the question that a record
// causes is in its trace, and what is dropped is named with it.
func TestTransactionsAreSpans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	r := newRigAt(t, filepath.Join(t.TempDir(), "test.db"), func(o *Options) {
		o.Tracer = tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)))
	})
	traced := say(t, "s1", 1, synchronizer.Message{Event: synchronizer.EventVerify, Name: "web", Checksum: sum(t, body("web", "u1", 1)), TraceParent: oneTrace})
	r.deliver(t, connected(t, "s1"), traced, verify(t, "s1", 2, "other", "x"))
	asked := r.questions(t)
	require.Len(t, asked, 2)
	for _, q := range asked {
		require.Equal(t, map[string]string{"web": oneTrace, "other": ""}[q.Name], q.TraceParent)
	}
	ended := spans.Ended()
	require.Len(t, ended, 1)
	require.Equal(t, tracing.SpanCommit, ended[0].Name())
	require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", ended[0].SpanContext().TraceID().String())
	require.Equal(t, "00f067aa0ba902b7", ended[0].Parent().SpanID().String())

	r.deliver(t, put(t, "s1", 4, "web", body("web", "u1", 1)))
	r.deliver(t, say(t, "s1", 3, synchronizer.Message{Event: synchronizer.EventVerify, Name: "web", Checksum: "old", TraceParent: oneTrace}))
	require.Equal(t, 1, r.drops.of(synchronizer.DropStale))
	require.Contains(t, r.drops.named[len(r.drops.named)-1], "traceId=4bf92f3577b34da6a3ce929d0e0e4736")
}
