// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/config"
)

// serving runs a backend until the test ends.
func serving(t *testing.T, c *config.Config) *Backend {
	t.Helper()
	b, err := Open(t.Context(), app.NewProcess(io.Discard), c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(limit):
			require.FailNow(t, "the backend does not stop")
		}
	})
	return b
}

// get asks a port for people; empty where nobody answers.
func get(t *testing.T, address, path string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	require.NoError(t, err)
	response, err := client.Do(r)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	if response.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// TestMetricsPort: backend.prometheusConfig opens a port that has /metrics and nothing
// else, beside the health port. If it names that one, there is no second.
func TestMetricsPort(t *testing.T) {
	c := configuration(t, t.TempDir())
	c.Backend.PrometheusConfig = config.PrometheusConfig{Port: 0}
	b := serving(t, c)
	require.Empty(t, b.MetricsAddress(), "it is off without enabled")
	require.Contains(t, get(t, b.HealthAddress(), "/metrics"), "synchronizer_connected_clients_count 0\n")

	c = configuration(t, t.TempDir())
	c.Backend.PrometheusConfig = config.PrometheusConfig{Enabled: true}
	b = serving(t, c)
	require.NotEmpty(t, b.MetricsAddress())
	require.NotEqual(t, b.HealthAddress(), b.MetricsAddress())
	require.Contains(t, get(t, b.MetricsAddress(), "/metrics"), "synchronizer_connected_clients_count 0\n")
	require.Contains(t, get(t, b.HealthAddress(), "/metrics"), "synchronizer_connected_clients_count 0\n")
	require.Empty(t, get(t, b.MetricsAddress(), "/healthz"))

	_, taken, _ := strings.Cut(b.MetricsAddress(), "]:")
	port, err := strconv.Atoi(taken)
	require.NoError(t, err)
	c = configuration(t, t.TempDir())
	c.Backend.PrometheusConfig = config.PrometheusConfig{Enabled: true, Port: port}
	_, err = Open(t.Context(), app.NewProcess(io.Discard), c)
	require.ErrorContains(t, err, "(backend.prometheusConfig.port)")

	c.Backend.HealthPort = port
	_, err = Open(t.Context(), app.NewProcess(io.Discard), c)
	require.ErrorContains(t, err, "(backend.healthPort)", "one port is listened on once")
}

// TestB099EveryReasonIsAMetric: the counters of drops are there before the first drop,
// one for each reason of the table and no other label, so no object and no cluster can
// make series.
func TestB099EveryReasonIsAMetric(t *testing.T) {
	b := serving(t, configuration(t, t.TempDir()))
	text := get(t, b.HealthAddress(), "/metrics")
	series := 0
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "synchronizer_drops_total") {
			series++
		}
	}
	require.Equal(t, len(synchronizer.DropReasons), series)
	for _, r := range synchronizer.DropReasons {
		require.Contains(t, text, `synchronizer_drops_total{reason="`+string(r.Reason)+`"} 0`+"\n")
	}
	for _, reason := range []string{"replay_expired", "replay_capacity", "replay_oversized", "duplicate"} {
		require.Contains(t, text, `synchronizer_drops_total{reason="`+reason+`"} 0`+"\n")
	}
	b.process.Drops.Drop(synchronizer.DropTooLarge, "apps/v1/deployments default/web")
	b.process.Drops.Drop(synchronizer.DropTooLarge, "apps/v1/deployments default/other")
	require.Contains(t, get(t, b.HealthAddress(), "/metrics"), `synchronizer_drops_total{reason="too_large"} 2`+"\n")
}
