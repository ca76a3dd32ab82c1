// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
)

func TestBenchFleet(t *testing.T) {
	r := runBench(t, "fleet", "--clients", "40", "--duration", "200ms", "--seconds", "0.2", "--runs", "2")
	require.Equal(t, "fleet of 40 clients", r.Benchmark)
	require.Equal(t, "synchronizer bench fleet --runs 2 --clients 40 --duration 200ms --seconds 0.2", r.Command)
	require.InDelta(t, 1, value(t, r, "goroutines per client"), .5)
	require.Positive(t, value(t, r, "RSS of the server"))
	require.Positive(t, value(t, r, "clients per second, until the queue has given what is said of each"))
	require.Equal(t, 8.0, value(t, r, "clients"), "a fifth speaks")
	require.Positive(t, value(t, r, "p99"))
	require.Positive(t, value(t, r, "commands per second that the others read, beside one that does not"))
	require.Positive(t, value(t, r, "messages per second of the others, beside one that does not"))
	require.Positive(t, value(t, r, "live heap after a collection, growth"))
}

func TestBenchFleetRefusesNonsense(t *testing.T) {
	for _, args := range [][]string{
		{"fleet", "--clients", "0"},
		{"fleet", "--clients", "50000"},
		{"fleet", "--duration", "0s"},
		{"fleet", "--seconds", "0"},
		{"fleet", "--runs", "0"},
	} {
		root := newRoot()
		root.SetArgs(append([]string{"bench"}, args...))
		require.ErrorIs(t, root.ExecuteContext(t.Context()), app.ErrUsage, args)
	}
}
