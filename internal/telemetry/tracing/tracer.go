// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"synchronizer"
	"synchronizer/internal/telemetry/traceparent"
)

// Names of spans.
const (
	SpanSend     = "agent.send"      // a client writes messages to its link
	SpanPublish  = "queue.publish"   // records are published and confirmed
	SpanCommit   = "ingest.commit"   // a transaction of the store, with its tries
	SpanHandDown = "relay.hand_down" // a server writes messages to a client
	SpanApply    = "agent.apply"     // a client writes one object into its cluster
)

// scope is what instruments; the version of the program is on the resource.
const scope = "synchronizer"

// Tracer makes spans. A nil *Tracer makes none, and wraps nothing.
type Tracer struct{ of trace.Tracer }

// New makes a tracer.
func New(p trace.TracerProvider) *Tracer { return &Tracer{p.Tracer(scope)} }

// Text is the traceparent of a span.
func Text(c trace.SpanContext) string {
	if !c.IsValid() {
		return ""
	}
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + (c.TraceFlags() & trace.FlagsSampled).String()
}

// parse reads a traceparent that was checked when it came.
func parse(s string) trace.SpanContext {
	if !traceparent.Valid(s) {
		return trace.SpanContext{}
	}
	// Errors are impossible in a valid one.
	traceID, _ := trace.TraceIDFromHex(s[3:35])
	spanID, _ := trace.SpanIDFromHex(s[36:52])
	var flags trace.TraceFlags
	if strings.IndexByte("13579bdf", s[54]) >= 0 { // the lowest bit
		flags = trace.FlagsSampled
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: flags, Remote: true})
}

// start starts a span in the trace of parent, or one of its own.
func (t *Tracer) start(ctx context.Context, name string, kind trace.SpanKind, parent string, attributes ...attribute.KeyValue) trace.Span {
	options := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(attributes...)}
	if above := parse(parent); above.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, above)
	} else {
		options = append(options, trace.WithNewRoot())
	}
	_, span := t.of.Start(ctx, name, options...)
	return span
}

// finish ends a span with what became of its work.
func finish(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

func ofCluster(id synchronizer.ClusterID) []attribute.KeyValue {
	if id == (synchronizer.ClusterID{}) {
		return nil
	}
	return []attribute.KeyValue{attribute.String("synchronizer.account", id.Account), attribute.String("synchronizer.cluster", id.Cluster)}
}

func ofMessage(m *synchronizer.Message) []attribute.KeyValue {
	list := []attribute.KeyValue{attribute.String("synchronizer.event", m.Event.String()), attribute.String("synchronizer.msg_id", m.MsgID)}
	if m.Kind != (synchronizer.Kind{}) {
		list = append(list, attribute.String("synchronizer.kind", m.Kind.String()))
	}
	if m.Event.AboutObject() {
		list = append(list, attribute.String("synchronizer.namespace", m.Namespace), attribute.String("synchronizer.name", m.Name))
	}
	return list
}
