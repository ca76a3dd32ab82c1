// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"synchronizer"
	"synchronizer/internal/agent"
	"synchronizer/internal/apply"
	"synchronizer/internal/telemetry/tracing"
)

// tracedApplier makes a span of each statement that is in a trace; tries that
// follow have their own.
type tracedApplier struct {
	agent.Applier
	tracer *tracing.Tracer
}

func (a tracedApplier) start(ctx context.Context, event synchronizer.Event, kind synchronizer.Kind, namespace, name string) func(apply.Result, error) {
	end := a.tracer.One(ctx, tracing.SpanApply,
		attribute.String("synchronizer.event", event.String()), attribute.String("synchronizer.kind", kind.String()),
		attribute.String("synchronizer.namespace", namespace), attribute.String("synchronizer.name", name))
	return func(r apply.Result, err error) { end(string(r.Outcome), err) }
}

// Put implements agent.Applier.
func (a tracedApplier) Put(ctx context.Context, kind synchronizer.Kind, namespace, name string, desired []byte) (r apply.Result, err error) {
	end := a.start(ctx, synchronizer.EventPut, kind, namespace, name)
	defer func() { end(r, err) }()
	return a.Applier.Put(ctx, kind, namespace, name, desired)
}

// Patch implements agent.Applier.
func (a tracedApplier) Patch(ctx context.Context, kind synchronizer.Kind, namespace, name string, change []byte, sum string) (r apply.Result, err error) {
	end := a.start(ctx, synchronizer.EventPatch, kind, namespace, name)
	defer func() { end(r, err) }()
	return a.Applier.Patch(ctx, kind, namespace, name, change, sum)
}

// Delete implements agent.Applier.
func (a tracedApplier) Delete(ctx context.Context, kind synchronizer.Kind, namespace, name string) (r apply.Result, err error) {
	end := a.start(ctx, synchronizer.EventDelete, kind, namespace, name)
	defer func() { end(r, err) }()
	return a.Applier.Delete(ctx, kind, namespace, name)
}
