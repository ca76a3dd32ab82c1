// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	agentpkg "synchronizer/internal/agent"
	"synchronizer/internal/app"
	"synchronizer/internal/app/server"
	"synchronizer/internal/apply"
	"synchronizer/internal/dedup"
	"synchronizer/internal/filter"
	"synchronizer/internal/kube"
	"synchronizer/internal/link"
	"synchronizer/internal/policy"
)

// hurry is how much faster the clock of a fast client runs. Its delays, such as
// the half minute after which a kind is asked for again, become short enough for
// a test; so does the time for which it remembers what it sent, to 10 s, far
// more than any cut here takes to be noticed.
const hurry = 10

type fastClock struct{ epoch time.Time }

func (c fastClock) Now() time.Time { return c.epoch.Add(hurry * time.Since(c.epoch)) }

func (fastClock) After(d time.Duration) (<-chan time.Time, func()) {
	timer := time.NewTimer(d / hurry)
	return timer.C, func() { timer.Stop() }
}

// startFastClient wires a client as internal/app/client does, with a fast clock.
func (w *world) startFastClient(to target) *agent {
	w.t.Helper()
	p := app.NewProcess(newLog(w.t, "client"))
	config, _, err := kube.LoadConfig(kube.LoadOptions{Flag: w.kubeconfig})
	require.NoError(w.t, err)
	cluster, err := kube.New(kube.Options{Config: config, Logger: p.Logger})
	require.NoError(w.t, err)
	w.t.Cleanup(cluster.Close)
	frames, err := link.NewMetrics(p.Registry)
	require.NoError(w.t, err)
	transform := policy.New(policy.LinkV1)
	options := agentpkg.Options{
		Cluster: cluster,
		Applier: apply.New(apply.Options{Cluster: cluster, Policy: transform, Strategy: func(kind synchronizer.Kind) apply.Strategy {
			if slices.Contains(w.kinds, kind) {
				return apply.Patch
			}
			return apply.NotConfigured
		}}),
		Applied: dedup.New(dedup.Options{TTL: 10 * time.Minute, MaxMessages: 10_000}),
		Dialer: &link.Dialer{
			URL: "ws://" + to.address, AccessKey: to.key, Drop: p.Drops.Drop, Metrics: frames,
			Hello: synchronizer.Hello{
				ClusterID:           synchronizer.ClusterID{Account: server.LocalAccount, Cluster: w.name},
				SynchronizerVersion: synchronizer.Version,
			},
		},
		Filter: filter.New(filter.Rules{IncludeNamespaces: []string{w.namespace}}), Policy: transform,
		Drop: p.Drops.Drop, Clock: fastClock{epoch: time.Now()}, Logger: p.Logger, Registerer: p.Registry,
	}
	for _, kind := range w.kinds {
		options.Kinds = append(options.Kinds, agentpkg.KindConfig{Kind: kind, Strategy: agentpkg.StrategyPatch})
	}
	made, err := agentpkg.New(options)
	require.NoError(w.t, err)
	a := &agent{registry: p.Registry}
	a.done, a.stop = background(w.t, "client", made.Run)
	return a
}
