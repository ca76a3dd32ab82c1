// SPDX-License-Identifier: Apache-2.0

// Package app holds what every process of the system needs before its parts are
// wired: a log, a registry, the drop counter, and the ports for people. The
// wiring itself is in the packages client and server below; they are apart so
// that the client's program links no queue, store or API.
package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"synchronizer/internal/telemetry"
	"synchronizer/internal/telemetry/otlp"
	"synchronizer/internal/telemetry/tracing"
)

// Process is the part of a process that its parts share.
type Process struct {
	Logger   *slog.Logger
	Registry *prometheus.Registry
	Drops    *telemetry.Drops
	// Tracer is nil unless StartTracing was called and OTEL_* say where to.
	Tracer *tracing.Tracer

	stopping atomic.Bool
	ready    atomic.Pointer[func() error] // of the health port; nil: it is not served yet
	status   atomic.Pointer[func() any]   // of the health port; nil: there is none
}

// SetStatus says what /status of the health port shows from now on.
func (p *Process) SetStatus(status func() any) { p.status.Store(&status) }

func (p *Process) currentStatus() any {
	if status := p.status.Load(); status != nil {
		return (*status)()
	}
	return nil
}

// NewProcess makes log, registry and drop counter; the log goes to w in the
// form that KS_LOGGER_LEVEL and KS_LOGGER_NAME ask for.
func NewProcess(w io.Writer) *Process {
	log := telemetry.NewLogger(w, os.Getenv("KS_LOGGER_LEVEL"), os.Getenv("KS_LOGGER_NAME"))
	reg := telemetry.NewRegistry()
	p := &Process{Logger: log, Registry: reg, Drops: telemetry.NewDrops(reg, log)}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "synchronizer_ready",
		Help: "1 while /readyz of the process says ok, else 0; the text of /readyz says why",
	}, func() float64 {
		if ready := p.ready.Load(); ready == nil || (*ready)() != nil {
			return 0
		}
		return 1
	}))
	return p
}

// flushTraces bounds the export of the last spans.
const flushTraces = 5 * time.Second

// StartTracing begins to trace under the name of a process, if OTEL_* say where to.
// Call it before the parts are opened, and stop after they have ended.
func (p *Process) StartTracing(service string) (stop func()) {
	tracer, shutdown := otlp.Start(otlp.Options{Service: service, Getenv: os.Getenv, Logger: p.Logger, Registerer: p.Registry})
	p.Tracer = tracer
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTraces)
		defer cancel()
		shutdown(ctx)
	}
}

// Registerer is the registry for one part, whose metrics get the label role, so
// that client and server can live in one process.
func (p *Process) Registerer(role string) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"role": role}, p.Registry)
}

// LocalPort is the address of a port for people; all interfaces, since probes and
// scrapers come from outside.
func LocalPort(port int) string { return net.JoinHostPort("", strconv.Itoa(port)) }

// Health serves the health port until ctx ends. Listen it first, so that a busy
// port is a start error.
func (p *Process) Health(ctx context.Context, l net.Listener, ready func() error) error {
	p.ready.Store(&ready)
	return telemetry.Serve(ctx, l, telemetry.Health{Registry: p.Registry, Ready: ready, Status: p.currentStatus}.Handler(), time.Second)
}

// profilerAddress is the field's port for pprof; loopback only.
const profilerAddress = "127.0.0.1:6060"

// Profiler serves pprof until ctx ends if ENABLE_PROFILER is set; a busy port
// is a warning.
func (p *Process) Profiler(ctx context.Context) error {
	if on, _ := strconv.ParseBool(os.Getenv("ENABLE_PROFILER")); !on {
		return nil
	}
	l, err := telemetry.Listen(ctx, profilerAddress, "ENABLE_PROFILER")
	if err != nil {
		p.Logger.Warn("no profiler", "error", err)
		return nil
	}
	return telemetry.Serve(ctx, l, telemetry.ProfilerHandler(), time.Second)
}
