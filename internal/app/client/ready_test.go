// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
	"synchronizer/internal/kube"
	"synchronizer/internal/kube/recorded"
	"synchronizer/internal/link/stock"
)

// TestReadyTellsTheTruth: a client is ready from its first connection on, also when
// the link breaks, until it is to end.
func TestReadyTellsTheTruth(t *testing.T) {
	cluster, err := recorded.NewServer(recorded.GenerateSet(recorded.Deployments, 1, 1))
	require.NoError(t, err)
	defer cluster.Close()
	server := stock.NewServer(t)
	c, err := Open(t.Context(), app.NewProcess(io.Discard), load(t, strings.Replace(server.URL, "http", "ws", 1)), kube.LoadOptions{Flag: kubeconfig(t, cluster.URL)}, true)
	require.NoError(t, err)
	require.ErrorContains(t, c.Ready(), "not yet connected to the server")

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	session := server.Next()
	require.Eventually(t, func() bool { return c.Ready() == nil }, limit, time.Millisecond)
	session.Cut()
	require.Eventually(t, func() bool { return !c.Status().Connected }, limit, time.Millisecond)
	require.NoError(t, c.Ready(), "callers of the endpoint hear 429, which is better than nobody")

	cancel()
	require.Eventually(t, func() bool { return c.Ready() != nil }, limit, time.Millisecond)
	require.ErrorContains(t, c.Ready(), "shutting down")
	require.NoError(t, <-done)
}

// TestNotReadyWithoutRules: while the ConfigMap of the rules cannot be read.
func TestNotReadyWithoutRules(t *testing.T) {
	cluster, err := recorded.NewServer(recorded.GenerateSet(recorded.Deployments, 1, 1))
	require.NoError(t, err)
	defer cluster.Close()
	server := stock.NewServer(t)
	c, err := Open(t.Context(), app.NewProcess(io.Discard), load(t, strings.Replace(server.URL, "http", "ws", 1),
		`"namespace":"kubescape","namespaceFilterConfigMapName":"namespace-filters",`), kube.LoadOptions{Flag: kubeconfig(t, cluster.URL)}, false)
	require.NoError(t, err)
	require.ErrorContains(t, c.Ready(), "kubescape/namespace-filters")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, c.Run(ended))
	require.Zero(t, server.Connected(), "it does not connect without rules")
	require.ErrorContains(t, c.Ready(), "shutting down")
}
