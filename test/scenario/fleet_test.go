// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// pod is a server in a process of its own, without ingester and store.
type pod struct {
	*process
	clients string // host:port
	health  string // URL
	folder  string // of its configuration
}

// startPods runs servers that share a queue. Settings are those of the section
// backend, for all of them.
func startPods(t testing.TB, on queueSetup, n int, settings map[string]any) []*pod {
	t.Helper()
	var pods []*pod
	for range n {
		at := reserve(t)
		_, port, err := net.SplitHostPort(at.api)
		require.NoError(t, err)
		number, err := strconv.Atoi(port)
		require.NoError(t, err)
		section := map[string]any{"listen": at.clients, "healthPort": number}
		for key, value := range settings {
			section[key] = value
		}
		p := &pod{clients: at.clients, health: "http://" + at.api, folder: writeConfig(t, serverOnly(on), "", section)}
		p.start(t)
		pods = append(pods, p)
	}
	for _, p := range pods {
		p.isReady(t)
	}
	return pods
}

// start runs the pod, also again.
func (p *pod) start(t testing.TB) {
	p.process = startProcess(t, "server", "--config", p.folder)
}

func (p *pod) isReady(t testing.TB) {
	t.Helper()
	eventually(t, "the pod is ready", func() bool {
		status, _ := readPage(t, p.health+"/readyz")
		return status == http.StatusOK || !p.runs()
	})
	require.True(t, p.runs(), "the pod has ended")
}

// terminate ends the pod as an orchestrator does (SIGTERM), and waits until it has
// ended in order.
func (p *pod) terminate(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	<-p.ended
	require.Equal(t, 0, p.cmd.ProcessState.ExitCode(), "the pod has not ended in order")
	require.NotContains(t, p.cmd.Stderr.(*lines).tail(10_000), "the queue did not take", "what was accepted is published")
}

// count sums the counters and gauges of a name that have the labels. A pod that
// does not answer has none.
func (p *pod) count(t testing.TB, name string, labels map[string]string) int {
	status, text := readPage(t, p.health+"/metrics")
	if status != http.StatusOK {
		return 0
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	sum := 0.0
	for _, m := range families[name].GetMetric() {
		matching := 0
		for _, label := range m.GetLabel() {
			if want, asked := labels[label.GetName()]; asked && want == label.GetValue() {
				matching++
			}
		}
		if matching == len(labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
		}
	}
	return int(sum)
}

// connected is how many clients the pod says are connected to it.
func (p *pod) connected(t testing.TB) int {
	return p.count(t, "synchronizer_connected_clients_count", nil)
}

// dropped is what the pod says it has dropped for a reason.
func (p *pod) dropped(t testing.TB, reason string) int {
	return p.count(t, "synchronizer_drops_total", map[string]string{"reason": reason})
}
