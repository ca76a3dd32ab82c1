// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prom "github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue"
)

// produced is a record about which metrics are asked.
func produced(event, resource, account, cluster string, bytes int) synchronizer.Record {
	return synchronizer.Record{Payload: make([]byte, bytes), Properties: []synchronizer.Property{
		{Name: queue.PropertyEvent, Value: event},
		{Name: queue.PropertyResource, Value: resource},
		{Name: queue.PropertyAccount, Value: account},
		{Name: queue.PropertyCluster, Value: cluster},
	}}
}

// TestMetricsOfTheField: the same events give the text that a server in the field
// gave, byte for byte: names, types, help, labels and values.
func TestMetricsOfTheField(t *testing.T) {
	golden, err := os.ReadFile("testdata/metrics-server.txt")
	require.NoError(t, err)
	parser := expfmt.NewTextParser(prom.LegacyValidation)
	recorded, err := parser.TextToMetricFamilies(strings.NewReader(string(golden)))
	require.NoError(t, err)

	reg := prometheus.NewRegistry()
	connected := 1
	m := newMetrics(reg, func() int { return connected })
	text := func() string {
		families, err := reg.Gather()
		require.NoError(t, err)
		var b strings.Builder
		for _, f := range families {
			if recorded[f.GetName()] != nil {
				_, err := expfmt.MetricFamilyToText(&b, f)
				require.NoError(t, err)
			}
		}
		return b.String()
	}
	require.Equal(t, "# HELP synchronizer_connected_clients_count The number of connected clients\n"+
		"# TYPE synchronizer_connected_clients_count gauge\nsynchronizer_connected_clients_count 1\n", text(),
		"the others appear with what they count first")

	bytes := map[string]int{}
	for _, s := range recorded["synchronizer_pulsar_producer_message_payload_bytes_produced_count"].GetMetric() {
		bytes[fmt.Sprint(labelsOf(s))] = int(s.GetCounter().GetValue())
	}
	for _, s := range recorded["synchronizer_pulsar_producer_messages_produced_count"].GetMetric() {
		l := labelsOf(s)
		records := make([]synchronizer.Record, int(s.GetCounter().GetValue()))
		for i := range records {
			records[i] = produced(l["event_type"], l["kind"], l["account"], l["cluster"], 0)
		}
		records[0].Payload = make([]byte, bytes[fmt.Sprint(l)])
		m.countProduced("pulsar", l["status"], records)
	}
	for _, s := range recorded["synchronizer_client_disconnection_count"].GetMetric() {
		connected--
		m.disconnected(synchronizer.ClusterID{Account: labelsOf(s)["account"], Cluster: labelsOf(s)["cluster"]})
	}
	require.Equal(t, string(golden), text())
	require.Equal(t, len(recorded["synchronizer_pulsar_producer_messages_produced_count"].GetMetric()),
		testutil.CollectAndCount(m.produced), "and under the names of newer servers")
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// TestOtherQueues have the label backend, and no names of Pulsar; what was refused
// counts no bytes.
func TestOtherQueues(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg, func() int { return 0 })
	m.countProduced("kafka", "success", []synchronizer.Record{produced("PutObject", "pods", "a", "c", 3), produced("PutObject", "pods", "a", "c", 4)})
	m.countProduced("kafka", "error", []synchronizer.Record{produced("PutObject", "pods", "a", "c", 5)})
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP synchronizer_mq_producer_message_payload_bytes_produced_count Counter of bytes published to the message queue (message payload) successfully
# TYPE synchronizer_mq_producer_message_payload_bytes_produced_count counter
synchronizer_mq_producer_message_payload_bytes_produced_count{account="a",backend="kafka",cluster="c",event_type="PutObject",kind="pods",status="success"} 7
# HELP synchronizer_mq_producer_messages_produced_count The total number of messages produced to the message queue
# TYPE synchronizer_mq_producer_messages_produced_count counter
synchronizer_mq_producer_messages_produced_count{account="a",backend="kafka",cluster="c",event_type="PutObject",kind="pods",status="error"} 1
synchronizer_mq_producer_messages_produced_count{account="a",backend="kafka",cluster="c",event_type="PutObject",kind="pods",status="success"} 2
`), "synchronizer_mq_producer_messages_produced_count", "synchronizer_mq_producer_message_payload_bytes_produced_count",
		"synchronizer_pulsar_producer_messages_produced_count", "synchronizer_pulsar_producer_message_payload_bytes_produced_count"))
}

// TestSeriesAreCapped: clients choose names, and cannot make series without end. Who
// came first keeps its own.
func TestSeriesAreCapped(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry(), func() int { return 0 })
	for i := range mostClusters + 50 {
		id := synchronizer.ClusterID{Account: "a", Cluster: fmt.Sprintf("c%04d", i)}
		m.disconnected(id)
		m.countProduced("pulsar", "success", []synchronizer.Record{produced("PutObject", fmt.Sprintf("k%d", i), id.Account, id.Cluster, 1)})
	}
	m.countProduced("pulsar", "success", []synchronizer.Record{produced("ConnectedClients", "", "", "", 1)})
	require.Equal(t, mostClusters+1, testutil.CollectAndCount(m.disconnections))
	require.Equal(t, 1.0, testutil.ToFloat64(m.disconnections.WithLabelValues("a", "c0000")))
	require.Equal(t, 50.0, testutil.ToFloat64(m.disconnections.WithLabelValues("other", "other")))
	for _, vec := range []*prometheus.CounterVec{m.produced, m.producedBytes, m.pulsarProduced, m.pulsarProducedBytes} {
		require.Equal(t, mostClusters+2, testutil.CollectAndCount(vec), "one more for the rest, one for what is about no cluster")
	}
	require.Equal(t, 1.0, testutil.ToFloat64(m.pulsarProduced.WithLabelValues("success", "ConnectedClients", "", "", "")))
}

// TestLabelsAreShort: nor can they make labels as long as they like, or a series for
// each kind in each cluster.
func TestLabelsAreShort(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry(), func() int { return 0 })
	long := strings.Repeat("x", longestName+1)
	m.disconnected(synchronizer.ClusterID{Account: long, Cluster: "c"})
	m.disconnected(synchronizer.ClusterID{Account: "a", Cluster: long})
	require.Equal(t, 2.0, testutil.ToFloat64(m.disconnections.WithLabelValues("other", "other")))
	m.countProduced("pulsar", "success", []synchronizer.Record{produced("PutObject", long, "a", "c", 1), produced("PutObject", long[1:], "a", "c", 1)})
	require.Equal(t, 1.0, testutil.ToFloat64(m.pulsarProduced.WithLabelValues("success", "PutObject", "other", "a", "c")))
	require.Equal(t, 1.0, testutil.ToFloat64(m.pulsarProduced.WithLabelValues("success", "PutObject", long[1:], "a", "c")))

	m.series.most = 10
	for cluster := range 30 {
		for kind := range 3 {
			m.countProduced("kafka", "success", []synchronizer.Record{produced("PutObject", fmt.Sprint("k", kind), "a", fmt.Sprint("c", cluster), 1)})
		}
	}
	require.Equal(t, 8+3, testutil.CollectAndCount(m.produced)-2, "what is new is of other clusters, by kind")
	require.Equal(t, 1.0, testutil.ToFloat64(m.produced.WithLabelValues("kafka", "success", "PutObject", "k0", "a", "c0")))
}
