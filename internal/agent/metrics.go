// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"synchronizer"
)

// metrics are those of one agent. Gauges per kind are read from Status when
// they are asked for.
type metrics struct {
	agent      *Agent
	connected  prometheus.Gauge
	reconnects prometheus.Counter
	events     *prometheus.CounterVec
	sent       *prometheus.CounterVec
	reads      *prometheus.CounterVec
	misreads   *prometheus.CounterVec
	merged     *prometheus.CounterVec
	withheld   *prometheus.CounterVec
	applied    *prometheus.CounterVec
	lists      *prometheus.HistogramVec

	objects, dirty, state, offered, baselines *prometheus.Desc
}

func newMetrics(a *Agent, registerer prometheus.Registerer) (*metrics, error) {
	const prefix = "synchronizer_agent_"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	m := &metrics{
		agent:      a,
		connected:  prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "connected", Help: "1 while there is a link to the server"}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "reconnects_total", Help: "Links made after the first one"}),
		events:     counter("events_total", "What lists and watches gave", "kind", "type"),
		sent:       counter("messages_sent_total", "Messages handed to the link", "kind", "event"),
		reads:      counter("reads_total", "Single objects read from the API server", "kind"),
		misreads:   counter("read_failures_total", "Single objects that could not be read; they are tried again", "kind"),
		merged:     counter("merged_changes_total", "Changes that were not sent because a later one of the object was", "kind"),
		withheld:   counter("withheld_messages_total", "Messages that were ready when the namespace rules changed, and were not sent because of them", "kind"),
		applied:    counter("applied_total", "What became of what the backend wrote into the cluster", "outcome", "reason"),
		lists: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "list_duration_seconds", Help: "Lists, with the failed ones, from start to end", Buckets: prometheus.ExponentialBuckets(0.01, 4, 8),
		}, []string{"kind"}),
		objects:   prometheus.NewDesc(prefix+"objects", "Objects known", []string{"kind"}, nil),
		dirty:     prometheus.NewDesc(prefix+"dirty", "Objects of which the newest state is still to be told", []string{"kind"}, nil),
		state:     prometheus.NewDesc(prefix+"kind_state", "1 for the state that a kind is in", []string{"kind", "state"}, nil),
		baselines: prometheus.NewDesc(prefix+"baseline_bytes", "Sent objects kept, compressed, for patches against them", nil, nil),
		offered:   prometheus.NewDesc(prefix+"offered_bytes", "Bodies kept because the backend may ask for them", nil, nil),
	}
	if registerer == nil {
		return m, nil
	}
	return m, registerer.Register(m)
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	for _, d := range []*prometheus.Desc{m.objects, m.dirty, m.state, m.offered, m.baselines} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for _, k := range m.agent.Status().Kinds {
		kind := k.Kind.String()
		gauge(m.objects, float64(k.Objects), kind)
		gauge(m.dirty, float64(k.Dirty), kind)
		for _, state := range append(states, StateAwaited, StateFailing) {
			value := 0.0
			if state == k.State {
				value = 1
			}
			gauge(m.state, value, kind, string(state))
		}
	}
	gauge(m.offered, float64(m.agent.pool.size()))
	gauge(m.baselines, float64(m.agent.baselines.Bytes()))
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.connected, m.reconnects, m.events, m.sent, m.reads, m.misreads, m.merged, m.withheld, m.applied, m.lists}
}

// Types of events, beside those of watches.
const eventListed = 0

var eventNames = [...]string{
	eventListed: "listed", synchronizer.WatchAdded: "added", synchronizer.WatchModified: "modified",
	synchronizer.WatchDeleted: "deleted", synchronizer.WatchBookmark: "bookmark",
}

// eventOf guards against a type that the contract does not have.
func eventOf(typ synchronizer.WatchEventType) int {
	return min(int(typ), len(eventNames)-1)
}

// kindMetrics are the metrics of one kind, looked up once.
type kindMetrics struct {
	events [len(eventNames)]prometheus.Counter
	counts map[synchronizer.Event]prometheus.Counter
	reads  prometheus.Counter
	failed prometheus.Counter // reads
	merged prometheus.Counter
	held   prometheus.Counter // withheld
	lists  prometheus.Observer
}

func (m *metrics) of(kind synchronizer.Kind) *kindMetrics {
	label := kind.String()
	k := &kindMetrics{
		counts: map[synchronizer.Event]prometheus.Counter{},
		reads:  m.reads.WithLabelValues(label),
		failed: m.misreads.WithLabelValues(label),
		merged: m.merged.WithLabelValues(label),
		held:   m.withheld.WithLabelValues(label),
		lists:  m.lists.WithLabelValues(label),
	}
	for i, name := range eventNames {
		k.events[i] = m.events.WithLabelValues(label, name)
	}
	for _, event := range []synchronizer.Event{synchronizer.EventVerify, synchronizer.EventPut, synchronizer.EventPatch, synchronizer.EventDelete, synchronizer.EventGet} {
		k.counts[event] = m.sent.WithLabelValues(label, event.String())
	}
	return k
}

func (k *kindMetrics) event(typ int) { k.events[typ].Inc() }

func (k *kindMetrics) sent(event synchronizer.Event) {
	if c := k.counts[event]; c != nil {
		c.Inc()
	}
}
