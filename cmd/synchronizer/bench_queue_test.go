// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
)

func TestBenchQueue(t *testing.T) {
	r := runBench(t, "queue", "--queue", "embedded", "--records", "1200", "--runs", "2")
	require.Equal(t, "queue, embedded", r.Benchmark)
	require.Equal(t, "synchronizer bench queue --runs 2 --records 1200 --queue embedded", r.Command)
	require.Positive(t, value(t, r, "records per second, published, read and acknowledged"))
	require.Positive(t, value(t, r, "records per second, as a part of those of the library"))
	require.Zero(t, value(t, r, "records read more than once"))
}

func TestBenchQueueRefusesNonsense(t *testing.T) {
	for _, args := range [][]string{
		{"queue", "--records", "0"},
		{"queue", "--queue", "post"},
		{"queue", "--runs", "0"},
	} {
		root := newRoot()
		root.SetArgs(append([]string{"bench"}, args...))
		require.ErrorIs(t, root.ExecuteContext(t.Context()), app.ErrUsage, args)
	}
}
