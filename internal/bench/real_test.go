// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/kube/recorded"
	"synchronizer/test/kubetest"
)

func TestRealAPIServer(t *testing.T) {
	cluster := kubetest.Start(t)
	const n = 30
	r, err := openReal(t.Context(), SourceOptions{Objects: n, Seed: 1, Kubeconfig: cluster.Kubeconfig}, nil)
	require.NoError(t, err)
	require.Equal(t, n, r.data().Objects)
	require.Equal(t, "real API server on the same machine", r.data().Source)

	start := time.Now()
	require.NoError(t, r.change(t.Context(), n, 1e6))
	require.Len(t, r.sent, n)
	require.NoError(t, r.renew())
	require.NoError(t, r.change(t.Context(), n, 1e6))
	require.Len(t, r.sent, 2*n, "the changes of the next run are changes")
	for v := range r.sent {
		at, ok := r.changed(v)
		require.True(t, ok)
		require.True(t, at.After(start))
	}

	dir := t.TempDir()
	require.NoError(t, recorded.Record(t.Context(), r.config, recorded.Deployments, dir))
	s, err := openStub(SourceOptions{Recording: dir})
	require.NoError(t, err)
	require.Equal(t, n, s.data().Objects)
	require.NoError(t, s.close())

	require.NoError(t, r.close())
	bodies, err := r.bodies(t.Context())
	require.NoError(t, err)
	require.Empty(t, bodies, "nothing is left behind")
	_, err = cluster.Do(t.Context(), http.MethodPost, r.path(""), "application/json", []byte(`{}`))
	require.Error(t, err, "the namespace ends")
}
