// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
	"synchronizer/internal/bench"
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
		{"relay", "--messages", "0"},
		{"relay", "--clients", "0"},
		{"relay", "--queue", "post"},
	} {
		root := newRoot()
		root.SetArgs(append([]string{"bench"}, args...))
		require.ErrorIs(t, root.ExecuteContext(t.Context()), app.ErrUsage, args)
	}
}

func TestBenchRelay(t *testing.T) {
	r := runBench(t, "relay", "--queue", "embedded", "--messages", "1200", "--clients", "3", "--runs", "2")
	require.Equal(t, "relay, embedded, 3 clients", r.Benchmark)
	require.Equal(t, "synchronizer bench relay --runs 2 --messages 1200 --clients 3 --queue embedded", r.Command)
	require.Positive(t, value(t, r, "messages per second, from the clients until they are acknowledged behind the queue"))
	require.Positive(t, value(t, r, "messages per second, as a part of those of the ceiling"))
	require.Zero(t, value(t, r, "messages read more than once"))
}

// A broker that cannot be started is named, and the others are measured.
func TestBenchQueueWithoutScripts(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(asProgram, "1")
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs([]string{"bench", "queue", "--queue", "pulsar,embedded", "--records", "500", "--runs", "1"})
	err := root.ExecuteContext(t.Context())
	require.ErrorIs(t, err, bench.ErrNoBroker)
	require.ErrorContains(t, err, "pulsar")
	require.ErrorContains(t, err, "--pulsar HOST:PORT")
	require.Contains(t, out.String(), "queue, embedded")
}
