// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProvider(t *testing.T) {
	for id, want := range map[string][2]string{
		"":                      {"", ""},
		"kind":                  {"", ""},
		"aws:///eu-west-1a/i-0": {"aws", ""},
		"gce://project/zone/n":  {"gce", ""},
		"azure:///subscriptions/s/resourceGroups/rg-1/providers/Microsoft.Compute/x": {"azure", "rg-1"},
		"azure:///subscriptions/s/resourceGroups/rg-2":                               {"azure", "rg-2"},
	} {
		cloud, group := provider(id)
		require.Equal(t, want, [2]string{cloud, group}, id)
	}
}
