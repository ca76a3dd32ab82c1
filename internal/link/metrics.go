// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"synchronizer"
	"synchronizer/internal/wire"
)

// Metrics counts the frames of all links of a process:
//
//	synchronizer_link_frames_total{direction,event}
//	synchronizer_link_bytes_total{direction,event}
//
// Direction is sent or received; event is the name on link v1 ("NewChecksum"),
// Unknown for frames that were not understood. A nil *Metrics counts nothing.
type Metrics struct {
	out, in [synchronizer.EventReconciliationBatch + 1]counters
}

type counters struct{ frames, bytes prometheus.Counter }

// NewMetrics registers the counters. A second call with the same Registerer
// gives the same counters again.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	labels := []string{"direction", "event"}
	frames, err := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "synchronizer_link_frames_total", Help: "Frames on links, by direction and event.",
	}, labels))
	if err != nil {
		return nil, err
	}
	bytes, err := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "synchronizer_link_bytes_total", Help: "Bytes of frames on links without WebSocket overhead, by direction and event.",
	}, labels))
	if err != nil {
		return nil, err
	}
	m := &Metrics{}
	for e := range m.out {
		name := wire.EventName(synchronizer.Event(e))
		m.out[e] = counters{frames.WithLabelValues("sent", name), bytes.WithLabelValues("sent", name)}
		m.in[e] = counters{frames.WithLabelValues("received", name), bytes.WithLabelValues("received", name)}
	}
	return m, nil
}

func register(reg prometheus.Registerer, vec *prometheus.CounterVec) (*prometheus.CounterVec, error) {
	err := reg.Register(vec)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(*prometheus.CounterVec); ok {
			return existing, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("registering metrics of links: %w", err)
	}
	return vec, nil
}

func (m *Metrics) sent(e synchronizer.Event, bytes int) {
	if m != nil {
		m.out[e].add(bytes)
	}
}

func (m *Metrics) received(e synchronizer.Event, bytes int) {
	if m != nil {
		m.in[e].add(bytes)
	}
}

func (c *counters) add(bytes int) {
	c.frames.Inc()
	c.bytes.Add(float64(bytes))
}
