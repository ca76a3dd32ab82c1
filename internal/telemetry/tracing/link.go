// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"synchronizer"
)

// Dialer wraps a client's dialer: what goes over its links is in a trace.
func (t *Tracer) Dialer(d synchronizer.Dialer) synchronizer.Dialer {
	if t == nil {
		return d
	}
	return dialer{d, t}
}

type dialer struct {
	synchronizer.Dialer
	tracer *Tracer
}

func (d dialer) Dial(ctx context.Context) (synchronizer.Link, error) {
	l, err := d.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return clientLink{l, d.tracer}, nil
}

type clientLink struct {
	synchronizer.Link
	tracer *Tracer
}

// Send implements synchronizer.Link.
func (l clientLink) Send(ctx context.Context, msgs ...synchronizer.Message) error {
	p := l.tracer.messages(ctx, SpanSend, trace.SpanKindProducer, l.Peer().ClusterID, msgs, true)
	if p.sampled() {
		msgs = slices.Clone(msgs) // they are the caller's
		for i := range msgs {
			msgs[i].TraceParent = p.text(msgs[i].TraceParent)
		}
	}
	err := l.Link.Send(ctx, msgs...)
	p.end(err)
	return err
}

// Accepted wraps the server's end of a link: what it writes of a trace has a span.
// The messages stay as they are, see the comment of the package.
func (t *Tracer) Accepted(l synchronizer.Link) synchronizer.Link {
	if t == nil {
		return l
	}
	traced := serverLink{l, t}
	if h, ok := l.(heard); ok {
		return heardLink{traced, h}
	}
	return traced
}

// heard is a link that counts the frames of its peer.
type heard interface{ Heard() uint64 }

type heardLink struct {
	serverLink
	below heard
}

// Heard is that of the link below.
func (l heardLink) Heard() uint64 { return l.below.Heard() }

type serverLink struct {
	synchronizer.Link
	tracer *Tracer
}

// Below is the link that is wrapped; Receive is its own.
func (l serverLink) Below() synchronizer.Link { return l.Link }

// Send implements synchronizer.Link.
func (l serverLink) Send(ctx context.Context, msgs ...synchronizer.Message) error {
	p := l.tracer.messages(ctx, SpanHandDown, trace.SpanKindConsumer, l.Peer().ClusterID, msgs, false)
	err := l.Link.Send(ctx, msgs...)
	p.end(err)
	return err
}

// messages starts the spans of messages. One that is alone is named.
func (t *Tracer) messages(ctx context.Context, name string, kind trace.SpanKind, id synchronizer.ClusterID, msgs []synchronizer.Message, roots bool) *parts {
	return t.split(ctx, batch{
		name: name, kind: kind, size: len(msgs), roots: roots,
		parent: func(i int) string { return msgs[i].TraceParent },
		describe: func(i int) []attribute.KeyValue {
			list := ofCluster(id)
			if len(msgs) == 1 {
				return append(list, ofMessage(&msgs[i])...)
			}
			return append(list, attribute.String("synchronizer.kind", msgs[i].Kind.String()))
		},
	})
}
