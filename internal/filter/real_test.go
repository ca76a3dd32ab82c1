// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"synchronizer"
	"synchronizer/internal/kube"
	"synchronizer/test/kubetest"
)

// sample is the manifest that users apply: ConfigMap, Role, RoleBinding.
func sample(t *testing.T) (configMap, rights string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "configuration", "namespace-filters.yaml"))
	require.NoError(t, err)
	configMap, rights, ok := strings.Cut(string(text), "\n---\n")
	require.True(t, ok)
	return configMap, rights
}

// TestRealRBAC runs against a real API server as the service account of the
// sample manifest, with the sample's Role and nothing else. It follows the smoke
// test of docs/namespace-filter.md: without rights at first, edits, an invalid
// edit, deletion, an outage.
func TestRealRBAC(t *testing.T) {
	server := kubetest.Start(t)
	ctx := t.Context()
	configMapManifest, rights := sample(t)
	token, err := server.ServiceAccountToken(ctx, "kubescape", "synchronizer", "", time.Hour)
	require.NoError(t, err)
	path, err := server.TokenKubeconfig("synchronizer", token)
	require.NoError(t, err)
	config, _, err := kube.LoadConfig(kube.LoadOptions{Flag: path})
	require.NoError(t, err)
	cluster, err := kube.New(kube.Options{Config: config})
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	view := cluster.Select(kube.ConfigMap("kubescape", "namespace-filters"))

	edit := func(document string) {
		t.Helper()
		const objects = "/api/v1/namespaces/kubescape/configmaps"
		_, err := server.Do(ctx, http.MethodPut, objects+"/namespace-filters", "", configMap("namespace-filters", document))
		if apierrors.IsNotFound(err) {
			_, err = server.Do(ctx, http.MethodPost, objects, "", configMap("namespace-filters", document))
		}
		require.NoError(t, err)
	}

	// Permissions are missing at startup: it waits, and says why.
	require.NoError(t, server.Apply(ctx, configMapManifest))
	r := run(t, view)
	require.Eventually(t, func() bool { return r.log.count(t, waiting) > 1 }, patience, 10*time.Millisecond)
	require.Contains(t, r.log.lines(t, waiting)[1]["reason"], "forbidden")
	require.False(t, r.isReady())
	require.False(t, r.live.Namespace("payments"))

	// They are granted: the sample's rules come into force without a restart.
	require.NoError(t, server.Apply(ctx, rights))
	require.Eventually(t, r.isReady, patience, 10*time.Millisecond)
	require.True(t, r.live.Namespace("payments"))
	require.False(t, r.live.Namespace("kube-system"))

	// The Role gives nothing else, so the test would notice any other request.
	none := func(synchronizer.Object) error { return nil }
	_, err = cluster.List(ctx, configmaps, none)
	require.ErrorIs(t, err, synchronizer.ErrForbidden)
	_, err = cluster.Select(kube.Selection{Namespace: "kubescape"}).List(ctx, configmaps, none)
	require.ErrorIs(t, err, synchronizer.ErrForbidden)
	_, err = cluster.Select(kube.ConfigMap("kubescape", "other")).List(ctx, configmaps, none)
	require.ErrorIs(t, err, synchronizer.ErrForbidden)
	_, err = cluster.Select(kube.ConfigMap("default", "namespace-filters")).List(ctx, configmaps, none)
	require.ErrorIs(t, err, synchronizer.ErrForbidden)
	_, err = view.Get(ctx, configmaps, "kubescape", "namespace-filters")
	require.ErrorIs(t, err, synchronizer.ErrForbidden)

	edit(excluding("payments"))
	require.Eventually(t, func() bool { return !r.live.Namespace("payments") }, patience, time.Millisecond)
	require.True(t, r.live.Namespace("kube-system"))

	// Invalid, deleted, API server away: the last valid rules stay in force.
	edit(`{"includeNamespaces":[],"excludeNamespaces":[],"excludeNamespacesRegex":["(?!kube)"]}`)
	require.Eventually(t, func() bool { return r.log.count(t, rejected) == 1 }, patience, time.Millisecond)
	require.Contains(t, r.log.lines(t, rejected)[0]["error"], "excludeNamespacesRegex")
	require.False(t, r.live.Namespace("payments"))
	require.NoError(t, server.Delete(ctx, configMapManifest))
	require.Eventually(t, func() bool { return r.log.count(t, kept) == 1 }, patience, time.Millisecond)
	require.False(t, r.live.Namespace("payments"))
	require.NoError(t, server.Stop())
	require.Eventually(t, func() bool { return r.log.count(t, kept) > 1 }, patience, 10*time.Millisecond)
	require.False(t, r.live.Namespace("payments"))
	require.NoError(t, server.Restart())

	edit(`{"includeNamespaces":"","excludeNamespaces":"","excludeNamespacesRegex":"^kube-"}`)
	require.Eventually(t, func() bool { return r.live.Namespace("payments") }, 2*patience, 10*time.Millisecond)
	require.False(t, r.live.Namespace("kube-system"))
	require.Equal(t, 3, r.log.count(t, updated))
}
