// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

func TestIngesterKinds(t *testing.T) {
	c := Default()
	kinds, err := c.Ingester.Kinds()
	require.NoError(t, err)
	require.Empty(t, kinds, "the ingester's own list is used")
	c.Ingester.V1Kinds = []string{"/v1/pods", "apps/v1/deployments"}
	kinds, err = c.Ingester.Kinds()
	require.NoError(t, err)
	require.Equal(t, []synchronizer.Kind{{Version: "v1", Resource: "pods"}, {Group: "apps", Version: "v1", Resource: "deployments"}}, kinds)
	c.Ingester.V1Kinds = []string{"pods"}
	_, err = c.Ingester.Kinds()
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
}
