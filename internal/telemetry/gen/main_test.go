// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPageIsFresh(t *testing.T) {
	text, err := os.ReadFile("../../../docs/drops.md")
	require.NoError(t, err)
	require.Equal(t, page(), string(text), "docs/drops.md is stale: run make generate")
}
