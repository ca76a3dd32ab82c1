// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"

	"synchronizer/internal/telemetry/otlp/otlptest"
	"synchronizer/internal/telemetry/traceparent"
	"synchronizer/internal/telemetry/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "hunter2"

func getenv(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func TestEnabled(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"nothing is said":     {map[string]string{}, false},
		"an endpoint":         {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, true},
		"one for traces":      {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318"}, true},
		"only a sampler":      {map[string]string{"OTEL_TRACES_SAMPLER": "always_on"}, false},
		"exporter none":       {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, false},
		"all turned off":      {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, false},
		"exporter otlp":       {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		"unknown exporter":    {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, true}, // which is a warning
		"exporter NONE":       {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "NONE"}, false},
		"white space is none": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, false},
	} {
		require.Equal(t, test.want, Enabled(getenv(test.env)), name)
	}
}

// TestWhatCannotBeUsed is a warning that names the variable and no secret, and no
// traces: never an error.
func TestWhatCannotBeUsed(t *testing.T) {
	notPEM := filepath.Join(t.TempDir(), "ca")
	require.NoError(t, os.WriteFile(notPEM, []byte("x"), 0o600))
	for name, test := range map[string]struct{ variable, value, want string }{
		"no scheme":        {"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "OTEL_EXPORTER_OTLP_ENDPOINT must be a URL"},
		"no URL":           {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://" + secret + "%zz", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be a URL"},
		"gRPC":             {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "only http/protobuf"},
		"another exporter": {"OTEL_TRACES_EXPORTER", "zipkin", "only otlp and none"},
		"headers":          {"OTEL_EXPORTER_OTLP_HEADERS", "authorization " + secret, "OTEL_EXPORTER_OTLP_HEADERS: not of the form"},
		"header splitting": {"OTEL_EXPORTER_OTLP_HEADERS", "a=" + secret + "%0d%0ab", "OTEL_EXPORTER_OTLP_HEADERS: not of the form"},
		"timeout":          {"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "not a number of milliseconds"},
		"compression":      {"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "only gzip"},
		"no CA":            {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent", "OTEL_EXPORTER_OTLP_CERTIFICATE: open"},
		"CA is no PEM":     {"OTEL_EXPORTER_OTLP_CERTIFICATE", notPEM, "no certificate in"},
		"key alone":        {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "/nonexistent", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and the key"},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
			env[test.variable] = test.value
			log := &otlptest.Log{}
			tracer, stop := Start(Options{Service: "s", Getenv: getenv(env), Logger: slog.New(slog.NewTextHandler(log, nil)), Registerer: prometheus.NewRegistry()})
			stop(t.Context())
			require.Nil(t, tracer)
			require.Contains(t, log.String(), `msg="no traces"`)
			require.Contains(t, log.String(), test.want)
			require.NotContains(t, log.String(), secret)
		})
	}
}

// TestDefaultEndpoint: who only chooses the exporter has a collector on this machine.
func TestDefaultEndpoint(t *testing.T) {
	s, err := read(getenv(map[string]string{"OTEL_TRACES_EXPORTER": "OTLP", "OTEL_EXPORTER_OTLP_COMPRESSION": "GZIP", "OTEL_EXPORTER_OTLP_PROTOCOL": "HTTP/protobuf"}))
	require.NoError(t, err)
	require.Equal(t, "http://localhost:4318/v1/traces", s.endpoint.String())
	require.True(t, s.gzip)
}

// begin starts to trace towards a collector.
func begin(t *testing.T, env map[string]string) (*tracing.Tracer, func(), *otlptest.Log, *prometheus.Registry) {
	t.Helper()
	log, reg := &otlptest.Log{}, prometheus.NewRegistry()
	tracer, stop := Start(Options{Service: "service", Getenv: getenv(env), Logger: slog.New(slog.NewTextHandler(log, nil)), Registerer: reg})
	require.NotNil(t, tracer, log)
	return tracer, func() { stop(t.Context()) }, log, reg
}

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func work(t *testing.T, tracer *tracing.Tracer) {
	t.Helper()
	tracer.One(traceparent.NewContext(t.Context(), parent), "work")("done", nil)
}

// TestExport: what the standard variables say is done, with and without gzip.
func TestExport(t *testing.T) {
	for _, compression := range []string{"none", "gzip"} {
		c := otlptest.New(t)
		tracer, stop, log, reg := begin(t, map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL + "/base", "OTEL_EXPORTER_OTLP_COMPRESSION": compression, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
			"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20" + secret + ", x-tenant=a", "OTEL_EXPORTER_OTLP_TIMEOUT": "5000",
		})
		work(t, tracer)
		stop()
		spans := c.Spans()
		require.Len(t, spans, 1)
		require.Equal(t, "work", spans[0].Name)
		require.Equal(t, "service", spans[0].Service)
		require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", spans[0].TraceID)
		require.Equal(t, "00f067aa0ba902b7", spans[0].ParentID)
		require.Equal(t, "done", spans[0].Attributes["synchronizer.outcome"])
		r := c.Requests()[0]
		require.Equal(t, "/base/v1/traces", r.URL.Path)
		require.Equal(t, "Bearer "+secret, r.Header.Get("Authorization"))
		require.Equal(t, "a", r.Header.Get("X-Tenant"))
		require.Equal(t, compression == "gzip", r.Header.Get("Content-Encoding") == "gzip")
		require.NotContains(t, log.String(), secret)
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP synchronizer_trace_spans_total Spans that the collector took (exported) or did not take (lost); only while traces are on
# TYPE synchronizer_trace_spans_total counter
synchronizer_trace_spans_total{result="exported"} 1
synchronizer_trace_spans_total{result="lost"} 0
`)))
	}
}

// TestEndpointForTraces is used as it is.
func TestEndpointForTraces(t *testing.T) {
	c := otlptest.New(t)
	tracer, stop, _, _ := begin(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.URL + "/mine",
	})
	work(t, tracer)
	stop()
	require.Len(t, c.Spans(), 1)
	require.Equal(t, "/mine", c.Requests()[0].URL.Path)
}

// TestAttributesAreBounded: names that others have made up are cut, as the environment
// says if it does.
func TestAttributesAreBounded(t *testing.T) {
	for value, want := range map[string]int{"": longestAttribute, "10": 10} {
		t.Setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", value)
		c := otlptest.New(t)
		tracer, stop, _, _ := begin(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
		tracer.One(traceparent.NewContext(t.Context(), parent), "work")(strings.Repeat("x", 1<<20), nil)
		stop()
		require.Len(t, c.Spans()[0].Attributes["synchronizer.outcome"], want)
	}
}

// TestSampler: the decision is made where a trace begins, and an unknown sampler is
// a warning.
func TestSampler(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
	c := otlptest.New(t)
	tracer, stop, _, _ := begin(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
	work(t, tracer)
	stop()
	require.Empty(t, c.Spans())

	t.Setenv("OTEL_TRACES_SAMPLER", "sometimes")
	tracer, stop, log, _ := begin(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
	work(t, tracer)
	stop()
	require.Contains(t, log.String(), "unsupported sampler: sometimes")
	require.Len(t, c.Spans(), 1)
}

func uploadTo(t *testing.T, url string) (*exporter, *otlptest.Log) {
	t.Helper()
	s, err := read(getenv(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_HEADERS": "k=" + secret}))
	require.NoError(t, err)
	log := &otlptest.Log{}
	e := newExporter(s, Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Registerer: prometheus.NewRegistry()})
	u := newUploader(s)
	u.pause = time.Microsecond
	e.Exporter = started(u)
	t.Cleanup(func() { require.NoError(t, e.Shutdown(context.WithoutCancel(t.Context()))) })
	return e, log
}

var oneSpan = []sdk.ReadOnlySpan{tracetest.SpanStub{Name: "one"}.Snapshot()}

// TestCollectorThatRefuses: spans are lost and counted, the log says so once until
// it is over, and nobody gets an error. What may pass is tried some times.
func TestCollectorThatRefuses(t *testing.T) {
	c := otlptest.New(t)
	e, log := uploadTo(t, c.URL)
	c.Answer(http.StatusUnauthorized, "")
	for range 3 {
		require.NoError(t, e.ExportSpans(t.Context(), oneSpan))
	}
	require.Len(t, c.Requests(), 3, "there is no use in another try")
	require.Equal(t, 3.0, testutil.ToFloat64(e.lost))
	require.Equal(t, 1, strings.Count(log.String(), "spans are lost"))
	require.Contains(t, log.String(), "HTTP 401")

	c.Answer(http.StatusServiceUnavailable, "")
	require.NoError(t, e.ExportSpans(t.Context(), oneSpan))
	require.Len(t, c.Requests(), 3+tries)
	require.Equal(t, 4.0, testutil.ToFloat64(e.lost))

	c.Answer(0, "")
	require.NoError(t, e.ExportSpans(t.Context(), oneSpan))
	require.Len(t, c.Spans(), 1)
	require.Equal(t, 1.0, testutil.ToFloat64(e.exported))
	require.Equal(t, 1, strings.Count(log.String(), "takes spans again"))
	require.NotContains(t, log.String(), secret)
}

// TestCollectorThatTakesPart: what it does not take is lost, though it says 200, and is
// not sent again; the log says why.
func TestCollectorThatTakesPart(t *testing.T) {
	for name, test := range map[string]struct {
		answer         []byte
		lost, exported float64
		log            string
	}{
		"nothing":           {nil, 0, 3, ""},
		"all":               {partly(0, ""), 0, 3, ""},
		"a warning":         {partly(0, "old version"), 0, 3, ""},
		"two are too old":   {partly(2, "too old"), 2, 1, "2 of 3 spans: too old"},
		"more than it got":  {partly(99, ""), 3, 0, "3 of 3 spans"},
		"less than none":    {partly(-5, ""), 0, 3, ""},
		"not what it is":    {[]byte("<html>"), 0, 3, ""},
		"cut":               {partly(2, "too old")[:4], 0, 3, ""},
		"an endless reason": {partly(1, strings.Repeat("x", 1<<20)), 0, 3, ""}, // it is not read to its end
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			e, log := uploadTo(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = w.Write(test.answer)
			})))
			require.NoError(t, e.ExportSpans(t.Context(), slices.Repeat(oneSpan, 3)))
			require.Equal(t, 1, requests)
			require.Equal(t, test.lost, testutil.ToFloat64(e.lost))
			require.Equal(t, test.exported, testutil.ToFloat64(e.exported))
			require.Equal(t, test.log != "", strings.Contains(log.String(), "spans are lost"), log)
			require.Contains(t, log.String(), test.log)
		})
	}
}

// partly is an ExportTraceServiceResponse.
func partly(rejected int64, reason string) []byte {
	part := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(rejected))
	part = protowire.AppendString(protowire.AppendTag(part, 2, protowire.BytesType), reason)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), part)
}

// TestCollectorThatHangs: the end of the process waits for it as long as it is told to.
func TestCollectorThatHangs(t *testing.T) {
	held, asked := make(chan struct{}), make(chan struct{}, 10)
	url := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(held) })
	log := &otlptest.Log{}
	tracer, stop := Start(Options{
		Service: "s", Logger: slog.New(slog.NewTextHandler(log, nil)), Registerer: prometheus.NewRegistry(),
		Getenv: getenv(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_TIMEOUT": "600000"}),
	})
	work(t, tracer)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		stop(ctx)
		close(stopped)
	}()
	<-asked
	cancel()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		require.FailNow(t, "it waits for the collector")
	}
	require.Contains(t, log.String(), "the last spans are lost")
}

// TestRetryAfter: the collector says when; the end of the context ends the wait.
func TestRetryAfter(t *testing.T) {
	c := otlptest.New(t)
	c.Answer(http.StatusTooManyRequests, "3600")
	e, _ := uploadTo(t, c.URL)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.ExportSpans(ctx, oneSpan) }()
	require.Eventually(t, func() bool { return len(c.Requests()) == 1 }, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.Len(t, c.Requests(), 1)
	require.Equal(t, 1.0, testutil.ToFloat64(e.lost))
}

// TestNoCollector: one that is not there, and redirects, are no reason to fail, and
// a redirect takes no header to another server.
func TestNoCollector(t *testing.T) {
	e, log := uploadTo(t, "http://127.0.0.1:1")
	require.NoError(t, e.ExportSpans(t.Context(), oneSpan))
	require.Contains(t, log.String(), "posting spans to 127.0.0.1:1")

	c := otlptest.New(t)
	elsewhere := http.RedirectHandler(c.URL, http.StatusTemporaryRedirect)
	e, log = uploadTo(t, serve(t, elsewhere))
	require.NoError(t, e.ExportSpans(t.Context(), oneSpan))
	require.Contains(t, log.String(), "HTTP 307")
	require.Empty(t, c.Requests())
}

func serve(t *testing.T, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// TestVariableOfTheField: who has set it is told what to set.
func TestVariableOfTheField(t *testing.T) {
	log := &otlptest.Log{}
	tracer, stop := Start(Options{
		Service: "s", Logger: slog.New(slog.NewTextHandler(log, nil)), Registerer: prometheus.NewRegistry(),
		Getenv: getenv(map[string]string{"OTEL_COLLECTOR_SVC": "collector:4317"}),
	})
	stop(t.Context())
	require.Nil(t, tracer)
	require.Contains(t, log.String(), "set OTEL_EXPORTER_OTLP_ENDPOINT")
}
