// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
	"synchronizer/internal/app/client"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
)

// target is where a client connects, and as whom.
type target struct {
	address string // host:port of the server or of a proxy before it
	account string // "" is local
	key     string // "" is any
}

// to is the target of most clients.
func to(b *backend) target { return target{address: b.clients, key: b.accessKey} }

// through is a backend behind a proxy.
func through(address string, b *backend) target { return target{address: address, key: b.accessKey} }

// configFile writes the config.json of a client and returns its folder.
func (w *world) configFile(to target) string {
	w.t.Helper()
	if to.account == "" {
		to.account = server.LocalAccount
	}
	if to.key == "" {
		to.key = "any"
	}
	var resources []map[string]string
	for _, k := range w.kinds {
		resources = append(resources, map[string]string{"group": k.Group, "version": k.Version, "resource": k.Resource, "strategy": config.StrategyPatch})
	}
	text, err := json.Marshal(map[string]any{"inCluster": map[string]any{
		"serverUrl": "ws://" + to.address, "account": to.account, "accessKey": to.key, "clusterName": w.name,
		"includeNamespaces": []string{w.namespace}, "healthPort": 0, "resources": resources,
	}})
	require.NoError(w.t, err)
	dir := w.t.TempDir()
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
	return dir
}

// agent is a client that runs in this process.
type agent struct {
	registry *prometheus.Registry
	done     <-chan struct{} // closed when it has ended
	stop     func()          // ends it in order and waits
}

// startClient runs a client in this process until the test ends.
func (w *world) startClient(to target) *agent {
	w.t.Helper()
	c, _, err := config.LoadClient(config.Env{ConfigDir: w.configFile(to)})
	require.NoError(w.t, err)
	p := app.NewProcess(newLog(w.t, "client"))
	opened, err := client.Open(w.t.Context(), p, c, kube.LoadOptions{Flag: w.kubeconfig}, false)
	require.NoError(w.t, err)
	a := &agent{registry: p.Registry}
	a.done, a.stop = background(w.t, "client", func(ctx context.Context) error { return opened.Run(ctx) })
	return a
}

// runs fails the test if the client has ended.
func (a *agent) runs(t testing.TB) {
	t.Helper()
	select {
	case <-a.done:
		require.FailNow(t, "the client has ended")
	default:
	}
}

// frames is how many frames of an event the client has sent or received.
func (a *agent) frames(direction, event string) int {
	return int(counter(a.registry, "synchronizer_link_frames_total", map[string]string{"direction": direction, "event": event}))
}

// counter sums the counters of a name that have the labels.
func counter(registry *prometheus.Registry, name string, labels map[string]string) float64 {
	families, err := registry.Gather()
	if err != nil {
		return -1
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			matching := 0
			for _, label := range m.GetLabel() {
				if want, asked := labels[label.GetName()]; asked && want == label.GetValue() {
					matching++
				}
			}
			if matching == len(labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// records is how many records the ingester has made final, by event and result.
func (b *backend) records(event, result string) int {
	return int(counter(b.registry, "synchronizer_ingester_records_total", map[string]string{"event": event, "result": result}))
}
