// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
	"synchronizer/internal/bench"
)

// asProgram in the environment makes this test binary the program that it tests:
// the benchmarks start their own executable again.
const asProgram = "SYNCHRONIZER_TEST_IS_PROGRAM"

func init() {
	if os.Getenv(asProgram) != "" {
		main()
	}
}

// runBench runs a benchmark and reads its JSON.
func runBench(t *testing.T, args ...string) bench.Report {
	t.Helper()
	t.Setenv(asProgram, "1")
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs(append([]string{"bench"}, append(args, "-o", "json")...))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	require.NoError(t, root.ExecuteContext(ctx))
	var report bench.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left behind")
	return report
}

// value is the value of a figure, wherever it stands.
func value(t *testing.T, r bench.Report, name string) float64 {
	t.Helper()
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	t.Fatalf("no figure %q in %v", name, r.Figures)
	return 0
}

func TestBenchFirstSync(t *testing.T) {
	profiles, document := t.TempDir(), filepath.Join(t.TempDir(), "benchmarks.md")
	r := runBench(t, "first-sync", "--objects", "200", "--runs", "1", "--settle", "10ms", "--cpu-profile", profiles, "--document", document)
	require.Equal(t, "synchronizer bench first-sync --objects 200 --runs 1 --settle 10ms --cpu-profile FOLDER", r.Command)
	require.Equal(t, 200, r.Data.Objects)
	require.Positive(t, value(t, r, "objects per second"))
	require.Positive(t, value(t, r, "of which checksum v1 (measured apart)"))
	require.Equal(t, 200.0, value(t, r, "sent by the client: PutObject"))
	require.Zero(t, value(t, r, "bodies sent (PutObject, PatchObject)"))
	require.Equal(t, 200.0, value(t, r, "checksums sent (NewChecksum)"))
	require.FileExists(t, document)
	files, err := filepath.Glob(filepath.Join(profiles, "*.pprof"))
	require.NoError(t, err)
	require.Len(t, files, 5) // first sync and the rest of two processes; the second client has one phase
}

func TestBenchLatency(t *testing.T) {
	r := runBench(t, "latency", "--objects", "50", "--rate", "100", "--duration", "500ms", "--runs", "2")
	require.Equal(t, 50.0, value(t, r, "made"))
	require.Zero(t, value(t, r, "not seen"))
	require.Positive(t, value(t, r, "p50"))
}

func TestBenchFirstSyncNamesItsStrategy(t *testing.T) {
	r := runBench(t, "first-sync", "--objects", "20", "--runs", "1", "--settle", "10ms", "--strategy", "copy")
	require.Equal(t, "first sync of 20 objects, generated, strategy copy", r.Benchmark)
	require.Equal(t, "synchronizer bench first-sync --objects 20 --runs 1 --strategy copy --settle 10ms", r.Command)
	require.Zero(t, value(t, r, "bodies sent (PutObject, PatchObject)"), "of the second start")
}

func TestBenchHotObject(t *testing.T) {
	r := runBench(t, "hot-object", "--changes", "200", "--duration", "1s", "--runs", "2")
	require.Equal(t, 200.0, value(t, r, "changes"))
	require.Equal(t, 1.0, value(t, r, "last state is stored (1: yes)"))
	require.InDelta(t, 3, value(t, r, "messages sent by the client"), 3)
	require.Positive(t, value(t, r, "states stored"))
}

func TestBenchIdle(t *testing.T) {
	r := runBench(t, "idle", "--objects", "20", "--kinds", "8", "--absent", "3", "--settle", "10ms", "--duration", "500ms")
	require.Equal(t, "idle, 8 kinds of which 3 absent, generated", r.Benchmark)
	require.Equal(t, 5.0, value(t, r, "kinds that are watched"))
	require.Equal(t, 3.0, value(t, r, "kinds that are not"))
	require.Positive(t, value(t, r, "RSS"))
	require.GreaterOrEqual(t, value(t, r, "watch until then"), 5.0)
}

func TestBenchUp(t *testing.T) {
	r := runBench(t, "up", "--objects", "20", "--runs", "1", "--idle", "50ms")
	require.Positive(t, value(t, r, "next start"))
	require.Positive(t, value(t, r, "RSS"))
}

func TestBenchRefusesNonsense(t *testing.T) {
	for _, args := range [][]string{
		{"first-sync", "--objects", "0"},
		{"first-sync", "--runs", "0"},
		{"up", "-o", "xml"},
		{"latency", "--rate", "0"},
		{"latency", "now"},
		{"first-sync", "--strategy", "guess"},
		{"hot-object", "--changes", "0"},
		{"hot-object", "--objects", "2"},
		{"idle", "--absent", "40"},
		{"idle", "--kinds", "99"},
		{"idle", "--duration", "0s"},
	} {
		root := newRoot()
		root.SetArgs(append([]string{"bench"}, args...))
		require.ErrorIs(t, root.ExecuteContext(t.Context()), app.ErrUsage, args)
	}
}

// A benchmark that is interrupted ends its processes and removes its folder.
func TestBenchInterrupted(t *testing.T) {
	t.Setenv(asProgram, "1")
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		root := newRoot()
		root.SetArgs([]string{"bench", "up", "--objects", "20", "--idle", "1h"})
		done <- root.ExecuteContext(ctx)
	}()
	require.Eventually(t, func() bool {
		ready, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*", "data", "addresses.json"))
		return err == nil && len(ready) > 0
	}, 30*time.Second, 5*time.Millisecond)
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "interrupted")
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}
