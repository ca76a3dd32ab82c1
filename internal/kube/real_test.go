// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"synchronizer"
	"synchronizer/internal/kube/clustertest"
	"synchronizer/internal/rawjson"
	"synchronizer/test/kubetest"
)

// TestContract runs the contract against a real API server.
func TestContract(t *testing.T) {
	clustertest.Run(t, func(t *testing.T) *clustertest.Env {
		server := kubetest.Start(t)
		require.NoError(t, server.CreateCRD(t.Context(), clustertest.Probes.Group, "v1", "probes", "Probe", kubetest.Namespaced))
		nobody, err := server.UserKubeconfig(t.Context(), "nobody", nil)
		require.NoError(t, err)
		forbidden, _, err := LoadConfig(LoadOptions{Flag: nobody})
		require.NoError(t, err)
		return &clustertest.Env{
			Cluster:   newCluster(t, server.RESTConfig()),
			Forbidden: newCluster(t, forbidden),
			Put: func(ctx context.Context, kind synchronizer.Kind, namespace, name string, doc []byte) error {
				_, err := server.Do(ctx, http.MethodPost, path(kind, namespace), "", doc)
				if apierrors.IsAlreadyExists(err) {
					_, err = server.Do(ctx, http.MethodPut, path(kind, namespace)+"/"+name, "", withVersion(ctx, server, kind, namespace, name, doc))
				}
				return err
			},
			Delete: func(ctx context.Context, kind synchronizer.Kind, namespace, name string) error {
				_, err := server.Do(ctx, http.MethodDelete, path(kind, namespace)+"/"+name, "", nil)
				return err
			},
			CreateNamespace: server.CreateNamespace,
			Compact: func(ctx context.Context) error {
				if err := server.Compact(ctx); err != nil {
					return err
				}
				return server.Restart()
			},
		}
	})
}

func newCluster(t *testing.T, config *rest.Config) *Cluster {
	t.Helper()
	c, err := New(Options{Config: config})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// withVersion names the state that doc replaces, which an update of a custom
// resource must do.
func withVersion(ctx context.Context, server *kubetest.Cluster, kind synchronizer.Kind, namespace, name string, doc []byte) []byte {
	current, err := server.Get(ctx, path(kind, namespace)+"/"+name)
	if err != nil {
		return doc
	}
	meta, err := rawjson.Metadata(current)
	if err != nil {
		return doc
	}
	return bytes.Replace(doc, []byte(`"metadata":{`), []byte(`"metadata":{"resourceVersion":"`+meta.ResourceVersion+`",`), 1)
}
