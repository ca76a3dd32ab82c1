// SPDX-License-Identifier: Apache-2.0

package kubefake

import (
	"context"
	"testing"

	"synchronizer"
	"synchronizer/internal/kube/clustertest"
)

func TestContract(t *testing.T) {
	clustertest.Run(t, func(*testing.T) *clustertest.Env {
		c, forbidden := New(), New()
		c.Serve(clustertest.ConfigMaps, clustertest.Probes)
		forbidden.FailList(clustertest.ConfigMaps, synchronizer.ErrForbidden)
		forbidden.FailWatch(clustertest.ConfigMaps, synchronizer.ErrForbidden)
		forbidden.FailGet(clustertest.ConfigMaps, synchronizer.ErrForbidden)
		return &clustertest.Env{
			Cluster:   c,
			Forbidden: forbidden,
			Put: func(_ context.Context, kind synchronizer.Kind, _, _ string, doc []byte) error {
				c.Put(kind, doc)
				return nil
			},
			Delete: func(_ context.Context, kind synchronizer.Kind, namespace, name string) error {
				c.Delete(kind, namespace, name)
				return nil
			},
			CreateNamespace: func(context.Context, string) error { return nil },
			Compact: func(context.Context) error {
				c.CompactBefore(c.ResourceVersion())
				return nil
			},
		}
	})
}
