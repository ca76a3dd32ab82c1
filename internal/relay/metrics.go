// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"github.com/prometheus/client_golang/prometheus"

	"synchronizer"
)

// metrics has the names of the field (no unit suffixes, no _total) for what the
// field counts, and ours beside them.
type metrics struct {
	disconnections *prometheus.CounterVec
	produced       *prometheus.CounterVec
	producedBytes  *prometheus.CounterVec
	downward       *prometheus.CounterVec
	refused        prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, clusters func() int) *metrics {
	labels := []string{"backend", "status", "event_type", "kind", "account", "cluster"}
	m := &metrics{
		disconnections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_client_disconnection_count",
			Help: "Counter of client disconnections",
		}, []string{"account", "cluster"}),
		produced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_mq_producer_messages_produced_count",
			Help: "The total number of messages produced to the message queue",
		}, labels),
		producedBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_mq_producer_message_payload_bytes_produced_count",
			Help: "Counter of bytes published to the message queue (message payload) successfully",
		}, labels),
		downward: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_relay_downward_records_total",
			Help: "Records of the backend by whether their client is connected to this server",
		}, []string{"result"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "synchronizer_relay_refused_connections_total",
			Help: "Connections that were refused; the log says why",
		}),
	}
	reg.MustRegister(m.disconnections, m.produced, m.producedBytes, m.downward, m.refused,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "synchronizer_connected_clients_count",
			Help: "The number of connected clients",
		}, func() float64 { return float64(clusters()) }))
	return m
}

// countProduced counts records of one publish by the labels of the field.
func (m *metrics) countProduced(backend, status string, records []synchronizer.Record) {
	for i := range records {
		r := &records[i]
		values := []string{backend, status, r.Property("event"), r.Property("resource"), r.Property("account"), r.Property("cluster")}
		m.produced.WithLabelValues(values...).Inc()
		if status == "success" {
			m.producedBytes.WithLabelValues(values...).Add(float64(len(r.Payload)))
		}
	}
}
