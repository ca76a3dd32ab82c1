// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"synchronizer"
	"synchronizer/internal/telemetry/traceparent"
)

// Queue wraps a queue, called system in spans: what is published is in a trace.
func (t *Tracer) Queue(q synchronizer.Queue, system string) synchronizer.Queue {
	if t == nil {
		return q
	}
	traced := &tracedQueue{q, t, system}
	if r, ok := q.(synchronizer.Reachable); ok {
		return &reachableQueue{traced, r}
	}
	return traced
}

type tracedQueue struct {
	synchronizer.Queue
	tracer *Tracer
	system string
}

// reachableQueue is one that can be asked, as the one below it.
type reachableQueue struct {
	*tracedQueue
	below synchronizer.Reachable
}

// Reachable implements synchronizer.Reachable.
func (q *reachableQueue) Reachable(ctx context.Context) error { return q.below.Reachable(ctx) }

// Publish implements synchronizer.Queue. Dead letters stay as they came.
func (q *tracedQueue) Publish(ctx context.Context, to synchronizer.Direction, records []synchronizer.Record) error {
	if to == synchronizer.DeadLetter {
		return q.Queue.Publish(ctx, to, records)
	}
	p := q.tracer.split(ctx, batch{
		name: SpanPublish, kind: trace.SpanKindProducer, size: len(records), roots: true,
		parent: func(i int) string { return parentOf(&records[i]) },
		describe: func(i int) []attribute.KeyValue {
			return []attribute.KeyValue{
				attribute.String("messaging.system", q.system), attribute.String("messaging.operation.name", "publish"),
				attribute.String("messaging.destination.name", to.String()), attribute.String("synchronizer.key", records[i].Key),
			}
		},
	})
	if p.sampled() {
		records = q.renewed(records, p)
	}
	err := q.Queue.Publish(ctx, to, records)
	p.end(err)
	return err
}

// parentOf is the traceparent of a record, if it is one.
func parentOf(r *synchronizer.Record) string {
	return traceparent.Clean(r.Property(traceparent.Name))
}

// renewed gives records that come from the spans; those given are the caller's.
func (q *tracedQueue) renewed(records []synchronizer.Record, p *parts) []synchronizer.Record {
	records = slices.Clone(records)
	for i := range records {
		r := &records[i]
		came := parentOf(r)
		text := p.text(came)
		if text == came {
			continue
		}
		properties := make([]synchronizer.Property, 0, len(r.Properties)+1)
		for _, property := range r.Properties {
			if property.Name != traceparent.Name {
				properties = append(properties, property)
			}
		}
		r.Properties = append(properties, synchronizer.Property{Name: traceparent.Name, Value: text})
	}
	return records
}
