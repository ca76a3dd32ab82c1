// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"synchronizer"
	"synchronizer/internal/telemetry/traceparent"
)

// Drops counts what was not carried, by reason, and names it in the log. A
// flood of one reason is logged at most ten times in ten seconds; the counter
// counts all, and the next line says how many were left out.
type Drops struct {
	counter *prometheus.CounterVec
	log     *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	windows map[synchronizer.DropReason]*window
	counts  map[synchronizer.DropReason]int64
}

const (
	dropWindowLength = 10 * time.Second
	dropWindowLines  = 10
)

// NewDrops registers synchronizer_drops_total{reason} with every reason at zero,
// so that an alert can be written before the first drop.
func NewDrops(reg prometheus.Registerer, log *slog.Logger) *Drops {
	d := &Drops{
		counter: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_drops_total",
			Help: "What was not carried, by reason (docs/drops.md)",
		}, []string{"reason"}),
		log:     log,
		now:     time.Now,
		windows: map[synchronizer.DropReason]*window{},
		counts:  map[synchronizer.DropReason]int64{},
	}
	reg.MustRegister(d.counter)
	for _, r := range synchronizer.DropReasons {
		d.counter.WithLabelValues(string(r.Reason))
	}
	return d
}

// Drop is a synchronizer.DropFunc. A trace that traceparent.Named has put into what
// becomes a field of its own.
func (d *Drops) Drop(reason synchronizer.DropReason, what string) {
	d.counter.WithLabelValues(string(reason)).Inc()
	if skipped, ok := d.admit(reason); ok {
		what, trace := traceparent.Split(what)
		attrs := []any{"reason", string(reason), "what", what}
		if trace != "" {
			attrs = append(attrs, traceparent.LogKey, trace)
		}
		if skipped > 0 {
			attrs = append(attrs, notLogged, skipped)
		}
		d.log.Warn("dropped", attrs...)
	}
}

// Counts gives the drops so far of the reasons that there were.
func (d *Drops) Counts() map[synchronizer.DropReason]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.counts)
}

// admit reports whether a line may be written now and how many were not.
func (d *Drops) admit(reason synchronizer.DropReason) (skipped int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts[reason]++
	w := d.windows[reason]
	if w == nil {
		w = &window{}
		d.windows[reason] = w
	}
	return w.admit(d.now(), dropWindowLength, dropWindowLines)
}
