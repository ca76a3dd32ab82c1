// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	reviews  *prometheus.CounterVec
}

func newMetrics(e *Endpoint, registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_endpoint_requests_total",
			Help: "Requests to the HTTP endpoint by resource (empty if it is none that is configured) and HTTP status; 202 is accepted.",
		}, []string{"resource", "code"}),
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_endpoint_reviews_total",
			Help: "Decisions on callers of the HTTP endpoint by result (allowed, unauthenticated, forbidden, error) and source (review, cache).",
		}, []string{"result", "source"}),
	}
	if registerer == nil {
		return m, nil
	}
	slots := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "synchronizer_endpoint_slots_in_use",
		Help: "Requests to the HTTP endpoint that are read or wait for the outbound worker; 10 at most, 2 of them for alerts only.",
	}, func() float64 {
		total, _ := e.admission.inside()
		return float64(total)
	})
	for _, c := range []prometheus.Collector{m.requests, m.reviews, slots} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) request(resource string, status int) {
	m.requests.WithLabelValues(resource, strconv.Itoa(status)).Inc()
}
