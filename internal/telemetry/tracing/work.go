// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"synchronizer/internal/telemetry/traceparent"
)

// Work starts the spans of a batch of n records, of which parent gives the
// traceparent; records without one have no span. The returned function, which is
// never nil, ends them.
func (t *Tracer) Work(ctx context.Context, name string, n int, parent func(int) string) func(error) {
	if t == nil {
		return func(error) {}
	}
	return t.split(ctx, batch{name: name, kind: trace.SpanKindConsumer, size: n, parent: parent}).end
}

// One starts the span of work on the one message of ctx (traceparent.NewContext). The
// returned function ends it with the outcome, a word, and an error; it is never nil.
func (t *Tracer) One(ctx context.Context, name string, attributes ...attribute.KeyValue) func(outcome string, err error) {
	parent := traceparent.FromContext(ctx)
	if t == nil || parent == "" {
		return func(string, error) {}
	}
	span := t.start(ctx, name, trace.SpanKindConsumer, parent, attributes...)
	return func(outcome string, err error) {
		span.SetAttributes(attribute.String("synchronizer.outcome", outcome))
		finish(span, err)
	}
}
