// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLockAdmitsOneBuilder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	require.NoError(t, err)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = lock(short, path)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	unlock()
	unlock, err = lock(t.Context(), path)
	require.NoError(t, err)
	unlock()
}

func TestSourceHashFollowsTheSource(t *testing.T) {
	source := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(source, name), []byte(text), 0o600))
	}
	hash := func() string {
		sum, err := sourceHash(source)
		require.NoError(t, err)
		return sum
	}
	write("go.mod", "module x\n")
	write("go.sum", "")
	write("main.go", "package main\n")
	before := hash()
	require.Len(t, before, 16)
	write("main_test.go", "package main\n")
	write("README.md", "x")
	require.Equal(t, before, hash())
	write("main.go", "package main\n\n")
	require.NotEqual(t, before, hash())
}
