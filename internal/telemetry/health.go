// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry makes the process's metrics registry, with those of the Go
// runtime and the process.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Health is the health port of a process: /healthz is always 200, /readyz is 200
// while Ready returns nil and 503 with its text otherwise, /metrics is the
// registry, and /status is what Status gives, as JSON, for people.
type Health struct {
	Registry *prometheus.Registry
	Ready    func() error
	Status   func() any // nil, or what gives nil: no such route
}

// Handler serves the routes.
func (h Health) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := h.Ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	if h.Status != nil {
		mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
			status := h.Status()
			if status == nil {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			encoder := json.NewEncoder(w)
			encoder.SetIndent("", "  ")
			_ = encoder.Encode(status)
		})
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.Registry, promhttp.HandlerOpts{}))
	return limited(mux)
}

// MetricsHandler serves /metrics and nothing else.
func MetricsHandler(reg *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return limited(mux)
}

// probeLimit is how long a request to a port for probes and scrapers may take, with
// its body and its answer: anybody who reaches the port can ask, and stop reading.
var probeLimit = 30 * time.Second

func limited(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection, end := http.NewResponseController(w), time.Now().Add(probeLimit)
		_ = connection.SetReadDeadline(end) // a recorder of a test has none
		_ = connection.SetWriteDeadline(end)
		h.ServeHTTP(w, r)
	})
}

// ProfilerHandler serves pprof, for the port 6060 that ENABLE_PROFILER opens.
func ProfilerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// Listen opens a TCP listener; its error names the configuration key, so that
// "address already in use" says what to change.
func Listen(ctx context.Context, address, key string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s (%s): %w", address, key, err)
	}
	return l, nil
}

// Serve runs an HTTP server on l until ctx ends, then gives running requests
// grace to end.
func Serve(ctx context.Context, l net.Listener, h http.Handler, grace time.Duration) error {
	return serve(ctx, newServer(h), l, grace)
}

// What a request may cost before anybody knows who sends it.
const (
	headerTimeout  = 5 * time.Second
	bodyTimeout    = 10 * time.Second
	maxHeaderBytes = 64 << 10
)

func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: boundBodies(h, bodyTimeout), ReadHeaderTimeout: headerTimeout, IdleTimeout: 120 * time.Second,
		MaxHeaderBytes: maxHeaderBytes,
	}
}

// boundBodies gives the body of a request a time to come. net/http waits for it
// before it answers, also when the handler does not want it, and without a limit a
// request that announces one and sends none holds its connection for ever. A
// ReadTimeout would end requests without a body as well, some of which take long.
func boundBodies(h http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit)) // unsupported only by recorders of tests
		}
		h.ServeHTTP(w, r)
	})
}

func serve(ctx context.Context, srv *http.Server, l net.Listener, grace time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := srv.Shutdown(stop); err != nil {
		_ = srv.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	}
	return nil
}
