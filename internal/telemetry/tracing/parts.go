// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// mostParts bounds the spans of one batch. The traces beyond it are linked to its
// first span.
const mostParts = 100

// parts are the spans of one batch: one for each trace that it holds messages of.
type parts struct {
	at    map[string]int // by the traceparent that the messages came with
	spans []trace.Span
	sizes []int    // messages
	texts []string // traceparent of the span; empty: it is not recorded
	total int
}

// batch is what split is given.
type batch struct {
	name   string
	kind   trace.SpanKind
	size   int
	parent func(i int) string // traceparent of message i
	roots  bool               // messages without one get a trace of their own, else no span
	// describe gives the attributes of a span by the first message of its trace; may
	// be nil.
	describe func(i int) []attribute.KeyValue
}

// split starts the spans of a batch. The result is nil if there is no span.
func (t *Tracer) split(ctx context.Context, b batch) *parts {
	var p *parts
	last, at := "", -1
	for i := range b.size {
		text := b.parent(i)
		if text == "" && !b.roots {
			continue
		}
		if at < 0 || text != last {
			if p == nil {
				p = &parts{at: map[string]int{}, total: b.size}
			}
			last, at = text, p.part(ctx, t, &b, i, text)
		}
		if at < len(p.sizes) {
			p.sizes[at]++
		}
	}
	return p
}

// part finds or starts the span of the trace of message i; beyond mostParts there is
// none.
func (p *parts) part(ctx context.Context, t *Tracer, b *batch, i int, text string) int {
	if at, known := p.at[text]; known {
		return at
	}
	if len(p.spans) == mostParts {
		p.spans[0].AddLink(trace.Link{SpanContext: parse(text)})
		p.at[text] = mostParts
		return mostParts
	}
	span := t.start(ctx, b.name, b.kind, text)
	if b.describe != nil && span.IsRecording() {
		span.SetAttributes(b.describe(i)...)
	}
	at := len(p.spans)
	p.at[text] = at
	p.spans, p.sizes = append(p.spans, span), append(p.sizes, 0)
	recorded := ""
	if span.SpanContext().IsSampled() {
		recorded = Text(span.SpanContext())
	}
	p.texts = append(p.texts, recorded)
	return at
}

// sampled reports whether any span is recorded.
func (p *parts) sampled() bool {
	if p != nil {
		for _, text := range p.texts {
			if text != "" {
				return true
			}
		}
	}
	return false
}

// text is what a message that came with this traceparent goes on with: the span's,
// or what it came with where no span is recorded.
func (p *parts) text(came string) string {
	if at, known := p.at[came]; known && at < len(p.texts) && p.texts[at] != "" {
		return p.texts[at]
	}
	return came
}

// end ends the spans.
func (p *parts) end(err error) {
	if p == nil {
		return
	}
	for i, span := range p.spans {
		span.SetAttributes(attribute.Int("messaging.batch.message_count", p.sizes[i]), attribute.Int("synchronizer.batch.messages", p.total))
		finish(span, err)
	}
}
