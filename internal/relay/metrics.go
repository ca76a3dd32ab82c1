// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"synchronizer"
	"synchronizer/internal/queue"
)

// metrics has the names of the field (no unit suffixes, no _total) for what the
// field counts, and ours beside them.
type metrics struct {
	disconnections *prometheus.CounterVec
	produced       *prometheus.CounterVec
	producedBytes  *prometheus.CounterVec
	// Older servers know no queue but Pulsar, and these names; boards may ask for them.
	pulsarProduced      *prometheus.CounterVec
	pulsarProducedBytes *prometheus.CounterVec
	downward            *prometheus.CounterVec
	refused             prometheus.Counter
	revoked             prometheus.Counter

	clusters, kinds, series names
}

// Clients choose clusters and kinds, so what becomes a label is bounded: how many of
// each, how long, and how many combinations of all labels, each of which is a series.
const (
	mostClusters = 1000
	mostKinds    = 200
	mostSeries   = 100_000
	longestName  = 253 // of a Kubernetes object
	otherName    = "other"
)

// pulsar is the QueueName that has the older names as well.
const pulsar = "pulsar"

// names are the label values that were given out.
type names struct {
	most int

	mu    sync.Mutex
	known map[any]struct{}
}

// admit reports whether there is room for a series of this name.
func (n *names) admit(name any) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.known[name]; ok {
		return true
	}
	if len(n.known) >= n.most {
		return false
	}
	n.known[name] = struct{}{}
	return true
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
		pulsarProduced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_pulsar_producer_messages_produced_count",
			Help: "The total number of messages produced to pulsar",
		}, labels[1:]),
		pulsarProducedBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_pulsar_producer_message_payload_bytes_produced_count",
			Help: "Counter of bytes published to pulsar (message payload) successfully",
		}, labels[1:]),
		downward: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_relay_downward_records_total",
			Help: "Records of the backend by result: accepted (for a client that is connected here), not_connected_here, and with replay retained and replayed",
		}, []string{"result"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "synchronizer_relay_refused_connections_total",
			Help: "Connections that were refused; the log says why",
		}),
		revoked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "synchronizer_relay_revoked_connections_total",
			Help: "Connections that were closed because their access key was revoked",
		}),
		clusters: names{most: mostClusters, known: map[any]struct{}{}},
		kinds:    names{most: mostKinds, known: map[any]struct{}{}},
		series:   names{most: mostSeries, known: map[any]struct{}{}},
	}
	reg.MustRegister(m.disconnections, m.produced, m.producedBytes, m.pulsarProduced, m.pulsarProducedBytes, m.downward, m.refused, m.revoked,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "synchronizer_connected_clients_count",
			Help: "The number of connected clients",
		}, func() float64 { return float64(clusters()) }))
	return m
}

// cluster is how a cluster is called in labels; what is about none has empty ones.
func (m *metrics) cluster(id synchronizer.ClusterID) (account, cluster string) {
	if len(id.Account) > longestName || len(id.Cluster) > longestName || id != (synchronizer.ClusterID{}) && !m.clusters.admit(id) {
		return otherName, otherName
	}
	return id.Account, id.Cluster
}

// kind is how a resource is called in labels.
func (m *metrics) kind(resource string) string {
	if len(resource) > longestName || resource != "" && !m.kinds.admit(resource) {
		return otherName
	}
	return resource
}

func (m *metrics) disconnected(id synchronizer.ClusterID) {
	m.disconnections.WithLabelValues(m.cluster(id)).Inc()
}

// countProduced counts records of one publish by the labels of the field. Those
// of one batch are mostly alike, so series are looked up only where they change.
func (m *metrics) countProduced(backend, status string, records []synchronizer.Record) {
	var (
		last   [4]string
		counts []series
	)
	for i := range records {
		r := &records[i]
		labels := [4]string{
			r.Property(queue.PropertyEvent), r.Property(queue.PropertyResource),
			r.Property(queue.PropertyAccount), r.Property(queue.PropertyCluster),
		}
		if counts == nil || labels != last {
			last = labels
			account, cluster := m.cluster(synchronizer.ClusterID{Account: labels[2], Cluster: labels[3]})
			kind := m.kind(labels[1])
			if cluster != "" && cluster != otherName && !m.series.admit([...]string{status, labels[0], kind, account, cluster}) {
				account, cluster = otherName, otherName
			}
			counts = m.producedBy(counts[:0], backend, status, labels[0], kind, account, cluster)
		}
		for _, c := range counts {
			c.messages.Inc()
			if c.bytes != nil {
				c.bytes.Add(float64(len(r.Payload)))
			}
		}
	}
}

// series are the counters of one combination of labels; bytes is nil for what was
// not accepted.
type series struct{ messages, bytes prometheus.Counter }

// producedBy appends the series of values, in the order of the labels: ours, and for
// Pulsar those that have no label backend.
func (m *metrics) producedBy(to []series, values ...string) []series {
	success := values[1] == "success"
	s := series{messages: m.produced.WithLabelValues(values...)}
	if success {
		s.bytes = m.producedBytes.WithLabelValues(values...)
	}
	to = append(to, s)
	if values[0] != pulsar {
		return to
	}
	s = series{messages: m.pulsarProduced.WithLabelValues(values[1:]...)}
	if success {
		s.bytes = m.pulsarProducedBytes.WithLabelValues(values[1:]...)
	}
	return append(to, s)
}
