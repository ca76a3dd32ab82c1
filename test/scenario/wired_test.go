// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	agentpkg "synchronizer/internal/agent"
	"synchronizer/internal/app"
	"synchronizer/internal/app/server"
	"synchronizer/internal/filter"
	"synchronizer/internal/kube"
	"synchronizer/internal/link"
	"synchronizer/internal/policy"
)

// wiring is what a test chooses of a client that users cannot configure, such as
// how long it waits.
type wiring struct {
	kube  kube.Options // with Config
	kinds []agentpkg.KindConfig
	clock agentpkg.Clock // nil: the system's
	log   *lines
	// relist is the time between lists of hollow kinds; 0 is the usual one.
	relist time.Duration
}

// startWired wires a client as internal/app/client does.
func (w *world) startWired(b *backend, c wiring) *agent {
	w.t.Helper()
	p := app.NewProcess(c.log)
	c.kube.Logger, c.kube.Registerer = p.Logger, p.Registry
	cluster, err := kube.New(c.kube)
	require.NoError(w.t, err)
	w.t.Cleanup(cluster.Close)
	frames, err := link.NewMetrics(p.Registry)
	require.NoError(w.t, err)
	made, err := agentpkg.New(agentpkg.Options{
		Cluster: cluster,
		Dialer: &link.Dialer{
			URL: "ws://" + b.clients, AccessKey: b.accessKey, Drop: p.Drops.Drop, Metrics: frames,
			Hello: synchronizer.Hello{
				ClusterID:           synchronizer.ClusterID{Account: server.LocalAccount, Cluster: w.name},
				SynchronizerVersion: synchronizer.Version,
			},
		},
		Kinds:  c.kinds,
		Filter: filter.New(filter.Rules{IncludeNamespaces: []string{w.namespace}}), Policy: policy.New(policy.LinkV1),
		HollowRelist: c.relist, Drop: p.Drops.Drop, Clock: c.clock, Logger: p.Logger, Registerer: p.Registry,
	})
	require.NoError(w.t, err)
	a := &agent{registry: p.Registry}
	a.done, a.stop = background(w.t, "client", made.Run)
	return a
}
