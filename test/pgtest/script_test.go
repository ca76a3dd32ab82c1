// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pgtest_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// script gives a way to run scripts/postgres.sh with data of its own, and the folder of
// the server; what it leaves running is stopped when the test ends.
func script(t *testing.T) (run func(words ...string) (string, int), dir string) {
	t.Helper()
	// Where root's tests start a server, its user must be able to enter the folder.
	cache, err := os.MkdirTemp("/tmp", "pgscript")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(cache, 0o755))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	require.NoError(t, listener.Close())
	path := withoutEngines(t)
	run = func(words ...string) (string, int) {
		cmd := exec.Command(filepath.Join("..", "..", "scripts", "postgres.sh"), append(words, "--port", port)...)
		cmd.Env = append(os.Environ(), "SYNCHRONIZER_CACHE="+cache, "PATH="+path)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			return err.Error(), -1
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	t.Cleanup(func() {
		run("stop")
		require.NoError(t, os.RemoveAll(cache))
	})
	return run, filepath.Join(cache, "brokers", "postgres", "server-"+port)
}

// TestScript: scripts/postgres.sh starts a server that takes connections, keeps its
// data over a stop, and says truly whether it runs.
func TestScript(t *testing.T) {
	run, _ := script(t)
	_, code := run("status")
	require.Equal(t, 3, code)
	_, code = run("no-such-word")
	require.Equal(t, 2, code)

	out, code := run()
	require.Equal(t, 0, code, out)
	url := regexp.MustCompile(`"url": "([^"]+)"`).FindStringSubmatch(out)
	require.Len(t, url, 2, out)
	_, err := query(t, url[1], "CREATE TABLE x (name text)")
	require.ErrorContains(t, err, "no rows")
	_, code = run("status")
	require.Equal(t, 0, code)
	again, code := run("start")
	require.Equal(t, 0, code)
	require.Contains(t, again, url[1])

	out, code = run("stop")
	require.Equal(t, 0, code, out)
	_, code = run("status")
	require.Equal(t, 3, code)
	out, code = run("start")
	require.Equal(t, 0, code, out)
	count, err := query(t, url[1], "SELECT count(*)::text FROM x")
	require.NoError(t, err)
	require.Equal(t, "0", count, "the data is kept")
}

// TestScriptInOddStates: two that start it first get one server, and a pid file that is
// lost, of somebody else or of a server that was killed keeps nobody from working.
func TestScriptInOddStates(t *testing.T) {
	run, dir := script(t)
	pidFile := filepath.Join(dir, "pid")
	runs := func(want int) {
		t.Helper()
		out, code := run("status")
		require.Equal(t, want, code, out)
		require.Equal(t, 1, strings.Count(out, "\n"), out)
	}
	start := func() {
		t.Helper()
		out, code := run("start")
		require.Equal(t, 0, code, out)
		runs(0)
	}
	pid := func() int {
		t.Helper()
		text, err := os.ReadFile(pidFile)
		require.NoError(t, err)
		number, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		return number
	}

	var both sync.WaitGroup
	outs, codes := [2]string{}, [2]int{}
	for i := range codes {
		both.Go(func() { outs[i], codes[i] = run("start") })
	}
	both.Wait()
	require.Equal(t, [2]int{}, codes, "%s\n%s", outs[0], outs[1])
	runs(0)

	require.NoError(t, os.Remove(pidFile))
	runs(0)
	require.NoError(t, os.Remove(pidFile))
	out, code := run("stop")
	require.Equal(t, 0, code, out)
	runs(3)

	for _, text := range []string{"", "no pid", "4194304", strconv.Itoa(os.Getpid())} {
		require.NoError(t, os.WriteFile(pidFile, []byte(text+"\n"), 0o600))
		runs(3)
	}
	start()
	require.NoError(t, syscall.Kill(pid(), syscall.SIGKILL))
	start()
	require.NoError(t, syscall.Kill(-pid(), syscall.SIGKILL), "with all that it has started")
	start()
}

// withoutEngines is a PATH in which neither Docker nor Podman answers.
func withoutEngines(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, engine := range []string{"docker", "podman"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, engine), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	}
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}
