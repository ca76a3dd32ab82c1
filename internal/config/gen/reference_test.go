// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReferencePageIsCurrent(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "configuration.md"))
	require.NoError(t, err)
	require.Equal(t, reference(), string(page), "run go generate ./internal/config")
}
