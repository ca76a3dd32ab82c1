// SPDX-License-Identifier: Apache-2.0

package kube

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests  *prometheus.CounterVec
	bytes     *prometheus.CounterVec
	pages     prometheus.Counter
	watchEnds *prometheus.CounterVec
	unknown   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_kube_requests_total",
			Help: "Requests to the API server by verb and HTTP status; the status is error where no answer came.",
		}, []string{"verb", "code"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_kube_received_bytes_total",
			Help: "Bytes of answers of the API server, after decompression, by verb.",
		}, []string{"verb"}),
		pages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "synchronizer_kube_list_pages_total",
			Help: "Complete pages of lists that were read.",
		}),
		watchEnds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_kube_watch_ends_total",
			Help: "Watches that ended, each of which is started again, by reason: closed (by the API server, in order), gone (410), refused (another HTTP status), unanswered, silent, dead (an HTTP/2 ping was not answered), reset, truncated, unreadable, error (anything else, such as an error event).",
		}, []string{"reason"}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "synchronizer_kube_unknown_watch_events_total",
			Help: "Events of watches that were passed over since their type is not known.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.requests, m.bytes, m.pages, m.watchEnds, m.unknown)
	}
	return m
}
