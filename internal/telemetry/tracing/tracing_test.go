// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/internal/telemetry/traceparent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	first  = "00-11111111111111111111111111111111-aaaaaaaaaaaaaaaa-01"
	second = "00-22222222222222222222222222222222-bbbbbbbbbbbbbbbb-01"
)

// recorder makes a tracer whose spans a test can read when they have ended.
func recorder(options ...sdk.TracerProviderOption) (*Tracer, *tracetest.SpanRecorder) {
	r := tracetest.NewSpanRecorder()
	return New(sdk.NewTracerProvider(append(options, sdk.WithSpanProcessor(r))...)), r
}

// attribute gives the text of an attribute, or "".
func attributeOf(s sdk.ReadOnlySpan, name string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == name {
			return a.Value.String()
		}
	}
	return ""
}

func TestTextAndParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var config trace.SpanContextConfig
		copy(config.TraceID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "trace"))
		copy(config.SpanID[:], rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "span"))
		config.TraceFlags = trace.TraceFlags(rapid.Byte().Draw(t, "flags"))
		c := trace.NewSpanContext(config)
		text := Text(c)
		if !c.IsValid() {
			require.Empty(t, text)
			return
		}
		require.True(t, traceparent.Valid(text), text)
		again := parse(text)
		require.Equal(t, c.TraceID(), again.TraceID())
		require.Equal(t, c.SpanID(), again.SpanID())
		require.Equal(t, c.IsSampled(), again.IsSampled())
		// All flags that another may write, of which one is known.
		other := fmt.Sprintf("%s%02x", text[:53], byte(c.TraceFlags()))
		require.Equal(t, c.IsSampled(), parse(other).IsSampled(), other)
	})
	require.False(t, parse("nothing").IsValid())
}

// fakeLink keeps what is sent.
type fakeLink struct {
	synchronizer.Link
	sent []synchronizer.Message
	err  error
}

func (l *fakeLink) Peer() synchronizer.Hello {
	return synchronizer.Hello{ClusterID: synchronizer.ClusterID{Account: "a", Cluster: "c"}}
}

func (l *fakeLink) Send(_ context.Context, msgs ...synchronizer.Message) error {
	l.sent = append(l.sent, slices.Clone(msgs)...)
	return l.err
}

func (l *fakeLink) Dial(context.Context) (synchronizer.Link, error) { return l, l.err }

func about(name, parent string) synchronizer.Message {
	return synchronizer.Message{Event: synchronizer.EventVerify, MsgID: "m", Kind: synchronizer.Kind{Version: "v1", Resource: "pods"}, Name: name, TraceParent: parent}
}

// TestClientSends: what a client says by itself begins a trace, one for each Send,
// and its answers stay in that of the question. The messages given are left alone.
func TestClientSends(t *testing.T) {
	tracer, spans := recorder()
	inner := &fakeLink{}
	l, err := tracer.Dialer(inner).Dial(t.Context())
	require.NoError(t, err)
	given := []synchronizer.Message{about("x", ""), about("y", first), about("z", "")}
	before := slices.Clone(given)
	require.NoError(t, l.Send(t.Context(), given...))
	require.Equal(t, before, given)
	ended := spans.Ended()
	require.Len(t, ended, 2)
	own, answer := ended[0], ended[1]
	require.False(t, own.Parent().IsValid())
	require.Equal(t, "2", attributeOf(own, "messaging.batch.message_count"))
	require.Equal(t, "3", attributeOf(own, "synchronizer.batch.messages"))
	require.Equal(t, "c", attributeOf(own, "synchronizer.cluster"))
	require.Equal(t, traceparent.TraceID(first), answer.SpanContext().TraceID().String())
	require.Equal(t, "aaaaaaaaaaaaaaaa", answer.Parent().SpanID().String())
	require.Equal(t, []string{Text(own.SpanContext()), Text(answer.SpanContext()), Text(own.SpanContext())},
		[]string{inner.sent[0].TraceParent, inner.sent[1].TraceParent, inner.sent[2].TraceParent})

	inner.err = errors.New("cut")
	require.Error(t, l.Send(t.Context(), about("x", "")))
	require.Equal(t, "cut", spans.Ended()[2].Status().Description)
	require.Equal(t, "x", attributeOf(spans.Ended()[2], "synchronizer.name"), "a message alone is named")
	_, err = tracer.Dialer(inner).Dial(t.Context())
	require.ErrorIs(t, err, inner.err)
}

// TestNotSampled: then frames are as without tracing.
func TestNotSampled(t *testing.T) {
	tracer, spans := recorder(sdk.WithSampler(sdk.NeverSample()))
	inner := &fakeLink{}
	l, err := tracer.Dialer(inner).Dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Send(t.Context(), about("x", "")))
	require.Empty(t, inner.sent[0].TraceParent)
	q := &fakeQueue{}
	require.NoError(t, tracer.Queue(q, "fake").Publish(t.Context(), synchronizer.Out, []synchronizer.Record{{Key: "a/c"}}))
	require.Empty(t, q.published[0].Properties)
	require.Empty(t, spans.Ended())
}

// TestServerHandsDown: the frames are those that they would be without spans, so
// that a repeat is known as one.
func TestServerHandsDown(t *testing.T) {
	tracer, spans := recorder()
	inner := &fakeLink{}
	l := tracer.Accepted(inner)
	given := []synchronizer.Message{about("x", ""), about("y", first), about("z", first), about("w", second)}
	require.NoError(t, l.Send(t.Context(), given...))
	require.Equal(t, given, inner.sent)
	ended := spans.Ended()
	require.Len(t, ended, 2, "what is in no trace has no span")
	require.Equal(t, SpanHandDown, ended[0].Name())
	require.Equal(t, "2", attributeOf(ended[0], "messaging.batch.message_count"))
	_, counts := l.(interface{ Heard() uint64 })
	require.False(t, counts)
	require.EqualValues(t, 7, tracer.Accepted(heardFake{inner}).(interface{ Heard() uint64 }).Heard())
}

type heardFake struct{ *fakeLink }

func (heardFake) Heard() uint64 { return 7 }

type fakeQueue struct {
	synchronizer.Queue
	published []synchronizer.Record
	err       error
}

func (q *fakeQueue) Publish(_ context.Context, _ synchronizer.Direction, records []synchronizer.Record) error {
	q.published = append(q.published, records...)
	return q.err
}

type reachableFake struct {
	*fakeQueue
	told error
}

func (q reachableFake) Reachable(context.Context) error { return q.told }

func record(parent string) synchronizer.Record {
	properties := []synchronizer.Property{{Name: "event", Value: "PutObject"}, {Name: traceparent.Name, Value: parent}, {Name: "x-seq", Value: "1"}}
	if parent == "" {
		properties = slices.Delete(properties, 1, 2)
	}
	return synchronizer.Record{Key: "a/c", Properties: properties, Payload: []byte("body")}
}

// TestPublish: a record goes on in the trace that it came in, or begins one, and the
// records given are left alone.
func TestPublish(t *testing.T) {
	tracer, spans := recorder()
	inner := &fakeQueue{}
	q := tracer.Queue(inner, "fake")
	given := []synchronizer.Record{record(""), record(first), record("not one"), record(second), record(first)}
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, given))
	require.Equal(t, []synchronizer.Record{record(""), record(first), record("not one"), record(second), record(first)}, given)
	ended := spans.Ended()
	require.Len(t, ended, 3)
	texts := make([]string, 3)
	for i, s := range ended {
		require.Equal(t, SpanPublish, s.Name())
		require.Equal(t, "fake", attributeOf(s, "messaging.system"))
		require.Equal(t, "out", attributeOf(s, "messaging.destination.name"))
		require.Equal(t, "a/c", attributeOf(s, "synchronizer.key"))
		texts[i] = Text(s.SpanContext())
	}
	require.False(t, ended[0].Parent().IsValid())
	require.Equal(t, "aaaaaaaaaaaaaaaa", ended[1].Parent().SpanID().String())
	require.Equal(t, "bbbbbbbbbbbbbbbb", ended[2].Parent().SpanID().String())
	for i, want := range []int{0, 1, 0, 2, 1} {
		r := &inner.published[i]
		require.Equal(t, texts[want], r.Property(traceparent.Name))
		require.Len(t, r.Properties, 3, "there is one traceparent")
		require.Equal(t, "PutObject1", r.Property("event")+r.Property("x-seq"))
		require.Equal(t, "body", string(r.Payload))
	}

	inner.published = nil
	dead := []synchronizer.Record{record(first)}
	require.NoError(t, q.Publish(t.Context(), synchronizer.DeadLetter, dead))
	require.Equal(t, dead, inner.published, "a dead letter is what came")
	require.Len(t, spans.Ended(), 3)

	_, ok := q.(synchronizer.Reachable)
	require.False(t, ok, "what could not be asked cannot be asked")
	told := errors.New("away")
	r, ok := tracer.Queue(reachableFake{inner, told}, "fake").(synchronizer.Reachable)
	require.True(t, ok)
	require.ErrorIs(t, r.Reachable(t.Context()), told)
}

// TestManyTraces: the spans of a batch are bounded; the other traces are linked.
func TestManyTraces(t *testing.T) {
	tracer, spans := recorder()
	inner := &fakeQueue{}
	records := make([]synchronizer.Record, mostParts+20)
	for i := range records {
		records[i] = record(fmt.Sprintf("00-%032x-aaaaaaaaaaaaaaaa-01", i+1))
	}
	require.NoError(t, tracer.Queue(inner, "fake").Publish(t.Context(), synchronizer.In, records))
	require.Len(t, spans.Ended(), mostParts)
	require.Len(t, spans.Ended()[0].Links(), 20)
	for i := range records {
		changed := inner.published[i].Property(traceparent.Name) != records[i].Property(traceparent.Name)
		require.Equal(t, i < mostParts, changed, i)
		require.Equal(t, traceparent.TraceID(records[i].Property(traceparent.Name)), traceparent.TraceID(inner.published[i].Property(traceparent.Name)))
	}
}

// TestWork: a span for each trace of a batch, none for what is in no trace.
func TestWork(t *testing.T) {
	tracer, spans := recorder()
	of := []string{"", first, second, first}
	failed := errors.New("database is away")
	tracer.Work(t.Context(), SpanCommit, len(of), func(i int) string { return of[i] })(failed)
	require.Len(t, spans.Ended(), 2)
	require.Equal(t, failed.Error(), spans.Ended()[0].Status().Description)
	tracer.Work(t.Context(), SpanCommit, 1, func(int) string { return "" })(nil)
	tracer.One(t.Context(), SpanApply)("applied", nil)
	require.Len(t, spans.Ended(), 2)
	tracer.One(traceparent.NewContext(t.Context(), first), SpanApply)("applied", nil)
	require.Equal(t, "applied", attributeOf(spans.Ended()[2], "synchronizer.outcome"))
}

// TestOff: without a tracer nothing is wrapped, and what is called costs nothing.
func TestOff(t *testing.T) {
	var off *Tracer
	l, q := &fakeLink{}, &fakeQueue{}
	require.Same(t, l, off.Dialer(l))
	require.Same(t, l, off.Accepted(l))
	require.Same(t, q, off.Queue(q, "fake"))
	items := make([]synchronizer.Message, 100)
	parent := func(i int) string { return items[i].TraceParent }
	require.Zero(t, testing.AllocsPerRun(100, func() {
		off.Work(t.Context(), SpanCommit, len(items), parent)(nil)
		off.One(t.Context(), SpanApply)("applied", nil)
	}))
}

// BenchmarkSend compares 64 messages in one Send without tracing, with it and not
// sampled, and recorded.
func BenchmarkSend(b *testing.B) {
	msgs := make([]synchronizer.Message, 64)
	for i := range msgs {
		msgs[i] = about("x", "")
	}
	never, _ := recorder(sdk.WithSampler(sdk.NeverSample()))
	always := New(sdk.NewTracerProvider())
	for name, tracer := range map[string]*Tracer{"off": nil, "not sampled": never, "sampled": always} {
		b.Run(name, func(b *testing.B) {
			l, err := tracer.Dialer(discard{}).Dial(b.Context())
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				_ = l.Send(b.Context(), msgs...)
			}
		})
	}
}

type discard struct{ synchronizer.Link }

func (discard) Peer() synchronizer.Hello                            { return synchronizer.Hello{} }
func (discard) Send(context.Context, ...synchronizer.Message) error { return nil }
func (d discard) Dial(context.Context) (synchronizer.Link, error)   { return d, nil }
