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

// split starts the spans of a batch of n messages. Those without a traceparent get a
// trace of their own if roots, else no span. The result is nil if there is no span.
func (t *Tracer) split(ctx context.Context, name string, kind trace.SpanKind, n int, parent func(int) string, roots bool, attributes ...attribute.KeyValue) *parts {
	var p *parts
	last, at := "", -1
	for i := range n {
		text := parent(i)
		if text == "" && !roots {
			continue
		}
		if at < 0 || text != last {
			if p == nil {
				p = &parts{at: map[string]int{}, total: n}
			}
			last, at = text, p.part(ctx, t, name, kind, text, attributes)
		}
		if at < len(p.sizes) {
			p.sizes[at]++
		}
	}
	return p
}

// part finds or starts the span of a trace; beyond mostParts there is none.
func (p *parts) part(ctx context.Context, t *Tracer, name string, kind trace.SpanKind, text string, attributes []attribute.KeyValue) int {
	if at, known := p.at[text]; known {
		return at
	}
	if len(p.spans) == mostParts {
		p.spans[0].AddLink(trace.Link{SpanContext: parse(text)})
		p.at[text] = mostParts
		return mostParts
	}
	span := t.start(ctx, name, kind, text, attributes...)
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

// describe adds attributes to the span of a trace.
func (p *parts) describe(came string, attributes ...attribute.KeyValue) {
	if at, known := p.at[came]; known && at < len(p.spans) {
		p.spans[at].SetAttributes(attributes...)
	}
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
