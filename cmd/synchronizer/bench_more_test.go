// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
	"synchronizer/test/kubetest"
)

func TestBenchReconcile(t *testing.T) {
	r := runBench(t, "reconcile", "--objects", "200", "--runs", "1")
	require.Equal(t, "reconciliation of 200 unchanged objects, generated", r.Benchmark)
	require.Equal(t, "synchronizer bench reconcile --objects 200 --runs 1", r.Command)
	require.Equal(t, 200.0, value(t, r, "objects in the list"))
	require.Zero(t, value(t, r, "bodies sent (PutObject, PatchObject)"))
	require.Positive(t, value(t, r, "bytes down"))
}

// Both leave nothing in the cluster.
func TestBenchWithRealAPIServer(t *testing.T) {
	cluster := kubetest.Start(t)
	t.Run("apply", func(t *testing.T) {
		r := runBench(t, "apply", "--kubeconfig", cluster.Kubeconfig, "--puts", "30", "--runs", "2")
		require.Equal(t, "synchronizer bench apply --runs 2 --puts 30 --kubeconfig FILE", r.Command)
		require.Equal(t, 30.0, value(t, r, "puts that were applied"))
		require.Positive(t, value(t, r, "objects per second, until all exist"))
	})
	t.Run("endpoint", func(t *testing.T) {
		r := runBench(t, "endpoint", "--kubeconfig", cluster.Kubeconfig, "--callers", "20", "--duration", "400ms")
		require.Equal(t, "HTTP endpoint, 20 callers, real API server", r.Benchmark)
		require.Positive(t, value(t, r, "accepted (202)"))
		require.Zero(t, value(t, r, "accepted and not received"))
		require.Zero(t, value(t, r, "received more than once"))
		require.Zero(t, value(t, r, "received although refused (429)"))
		require.Positive(t, value(t, r, "p99 with"))
	})
	// The namespaces end, which the API server alone cannot finish.
	for _, path := range []string{
		"/api/v1/configmaps", "/api/v1/serviceaccounts",
		"/apis/rbac.authorization.k8s.io/v1/roles", "/apis/rbac.authorization.k8s.io/v1/rolebindings",
	} {
		left, err := cluster.Get(t.Context(), path)
		require.NoError(t, err)
		require.NotContains(t, string(left), `"namespace":"bench-`)
	}
}

func TestBenchOfRealAPIServerRefusesNonsense(t *testing.T) {
	for _, args := range [][]string{
		{"endpoint", "--kubeconfig", "x", "--callers", "0"},
		{"endpoint", "--kubeconfig", "x", "--duration", "0s"},
		{"apply", "--kubeconfig", "x", "--puts", "0"},
		{"reconcile", "--objects", "0"},
	} {
		root := newRoot()
		root.SetArgs(append([]string{"bench"}, args...))
		require.ErrorIs(t, root.ExecuteContext(t.Context()), app.ErrUsage, args)
	}
}
