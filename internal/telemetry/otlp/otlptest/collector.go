// SPDX-License-Identifier: Apache-2.0

// Package otlptest is a collector for tests: it takes spans by OTLP over HTTP and
// keeps them.
package otlptest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Span is what a test looks at of a span.
type Span struct {
	Service, Name         string
	TraceID, ID, ParentID string // hexadecimal; ParentID is empty of a root
	Kind                  trace.Span_SpanKind
	Attributes            map[string]string
	Links                 int
	Error                 string // of its status
}

// Collector is a running one.
type Collector struct {
	URL string // for OTEL_EXPORTER_OTLP_ENDPOINT

	mu       sync.Mutex
	spans    []Span
	requests []*http.Request
	answer   int
	retry    string
}

// New starts a collector for the time of a test.
func New(t *testing.T) *Collector {
	c := &Collector{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Answer makes the collector refuse with a status from now on; 0: it takes spans.
// RetryAfter is the header's value, if it is not empty.
func (c *Collector) Answer(status int, retryAfter string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer, c.retry = status, retryAfter
}

// Spans gives those that were taken so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Requests gives what was asked so far, without bodies.
func (c *Collector) Requests() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	spans, err := read(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	switch {
	case c.answer != 0:
		if c.retry != "" {
			w.Header().Set("Retry-After", c.retry)
		}
		w.WriteHeader(c.answer)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		c.spans = append(c.spans, spans...)
	}
}

// read reads an ExportTraceServiceRequest.
func read(r *http.Request) ([]Span, error) {
	if kind := r.Header.Get("Content-Type"); r.Method != http.MethodPost || kind != "application/x-protobuf" {
		return nil, fmt.Errorf("%s of %s", r.Method, kind)
	}
	from := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, fmt.Errorf("unpacking: %w", err)
		}
		from = unpacked
	}
	body, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("reading body: %w", err)
	}
	var spans []Span
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 || number != 1 || kind != protowire.BytesType {
			return nil, fmt.Errorf("field %d of type %d", number, kind)
		}
		one, m := protowire.ConsumeBytes(body[n:])
		if m < 0 {
			return nil, protowire.ParseError(m)
		}
		body = body[n+m:]
		var of trace.ResourceSpans
		if err := proto.Unmarshal(one, &of); err != nil {
			return nil, fmt.Errorf("reading spans: %w", err)
		}
		spans = append(spans, convert(&of)...)
	}
	return spans, nil
}

func convert(of *trace.ResourceSpans) []Span {
	service := ""
	for _, a := range of.GetResource().GetAttributes() {
		if a.GetKey() == "service.name" {
			service = a.GetValue().GetStringValue()
		}
	}
	var spans []Span
	for _, scope := range of.GetScopeSpans() {
		for _, s := range scope.GetSpans() {
			attributes := map[string]string{}
			for _, a := range s.GetAttributes() {
				value := a.GetValue().GetStringValue()
				if value == "" {
					value = fmt.Sprint(a.GetValue().GetIntValue())
				}
				attributes[a.GetKey()] = value
			}
			spans = append(spans, Span{
				Service: service, Name: s.GetName(), Kind: s.GetKind(),
				TraceID: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), ParentID: hex.EncodeToString(s.GetParentSpanId()),
				Attributes: attributes, Links: len(s.GetLinks()), Error: s.GetStatus().GetMessage(),
			})
		}
	}
	return spans
}
