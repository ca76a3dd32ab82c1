// SPDX-License-Identifier: Apache-2.0

package ingest

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	records     *prometheus.CounterVec
	batch       prometheus.Histogram
	transaction prometheus.Histogram
	retries     *prometheus.CounterVec
	listed      prometheus.Counter
	refused     prometheus.Counter
	forgotten   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_ingester_records_total",
			Help: "Records that are final, by event and by what became of them",
		}, []string{"event", "result"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "synchronizer_ingester_batch_records",
			Help:    "Records per transaction",
			Buckets: []float64{1, 4, 16, 64, 128, 256, 500},
		}),
		transaction: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "synchronizer_ingester_transaction_seconds",
			Help:    "Time of one transaction, fold and commit",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_ingester_retries_total",
			Help: "Tries again, by what was away (store or queue)",
		}, []string{"of"}),
		listed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "synchronizer_ingester_listed_objects_total",
			Help: "Objects listed in reconciliations",
		}),
	}
	m.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "synchronizer_ingester_refused_total",
		Help: "Attempts to write one record that the database refused",
	})
	m.forgotten = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "synchronizer_ingester_forgotten_total",
		Help: "What the store has forgotten by age: tombstones, events, sources, clusters",
	}, []string{"what"})
	reg.MustRegister(m.records, m.batch, m.transaction, m.retries, m.listed, m.refused, m.forgotten)
	return m
}
