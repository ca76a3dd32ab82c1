// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"synchronizer"
	"synchronizer/internal/telemetry/tracing"
)

// longestAttribute bounds names that others have chosen, in characters, unless
// OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT does.
const longestAttribute = 2 << 10

// Options of Start; all must be set.
type Options struct {
	// Service is the name of the process in traces, unless OTEL_SERVICE_NAME gives one.
	Service    string
	Getenv     func(string) string // sampler and batches are always read from the process's own environment
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Start begins to trace if the environment says where to. The tracer is nil if it
// does not, or if what it says is no use, which is a warning. Stop exports what is
// left, until its context ends; it is never nil.
func Start(o Options) (_ *tracing.Tracer, stop func(context.Context)) {
	nothing := func(context.Context) {}
	if !Enabled(o.Getenv) {
		if o.Getenv("OTEL_COLLECTOR_SVC") != "" { // of charts in the field; theirs is gRPC
			o.Logger.Info("OTEL_COLLECTOR_SVC is not used: for traces, set OTEL_EXPORTER_OTLP_ENDPOINT to the collector's URL for HTTP, such as http://collector:4318")
		}
		return nil, nothing
	}
	s, err := read(o.Getenv)
	if err != nil {
		o.Logger.Warn("no traces", "error", err)
		return nil, nothing
	}
	// What the SDK itself finds fault with, such as an unknown OTEL_TRACES_SAMPLER.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Logger.Warn("tracing", "error", err) }))
	// The first ones are the defaults.
	of, err := resource.New(context.Background(),
		resource.WithAttributes(attribute.String("service.name", o.Service), attribute.String("service.version", synchronizer.Version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		o.Logger.Warn("OTEL_RESOURCE_ATTRIBUTES is used in part", "error", err)
	}
	e := newExporter(s, o)
	limits := sdk.NewSpanLimits() // of the environment
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = longestAttribute
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(e), sdk.WithResource(of), sdk.WithRawSpanLimits(limits))
	o.Logger.Info("tracing", "collector", s.endpoint.Host)
	return tracing.New(provider), func(ctx context.Context) {
		if err := provider.Shutdown(ctx); err != nil {
			o.Logger.Warn("the last spans are lost", "error", fmt.Errorf("stopping traces: %w", err))
		}
	}
}

// exporter counts, and says on a change whether the collector takes spans. To the
// SDK it never fails, which could only repeat it.
type exporter struct {
	*otlptrace.Exporter
	log            *slog.Logger
	exported, lost prometheus.Counter

	mu      sync.Mutex
	failing bool
}

func newExporter(s *settings, o Options) *exporter {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "synchronizer_trace_spans_total",
		Help: "Spans that the collector took (exported) or did not take (lost); only while traces are on",
	}, []string{"result"})
	o.Registerer.MustRegister(spans)
	return &exporter{
		Exporter: started(newUploader(s)), log: o.Logger,
		exported: spans.WithLabelValues("exported"), lost: spans.WithLabelValues("lost"),
	}
}

// ExportSpans implements the SDK's SpanExporter.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.Exporter.ExportSpans(ctx, spans)
	lost := 0
	if part, ok := errors.AsType[*partError](err); ok {
		lost = int(min(part.rejected, int64(len(spans))))
		err = fmt.Errorf("%d of %d spans: %s", lost, len(spans), part.reason)
	} else if err != nil {
		lost = len(spans)
	}
	e.exported.Add(float64(len(spans) - lost))
	e.lost.Add(float64(lost))
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil && e.failing:
		e.log.Info("the collector takes spans again")
	case err != nil && !e.failing:
		e.log.Warn("spans are lost until the collector takes them", "error", err)
	}
	e.failing = err != nil
	return nil
}

// started gives an exporter whose Shutdown stops the uploader.
func started(u *uploader) *otlptrace.Exporter {
	e := otlptrace.NewUnstarted(u)
	_ = e.Start(context.Background()) // of an uploader it cannot fail
	return e
}
