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
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScript: scripts/postgres.sh starts a server that takes connections, keeps its
// data over a stop, and says truly whether it runs.
func TestScript(t *testing.T) {
	// Where root's tests start a server, its user must be able to enter the folder.
	cache, err := os.MkdirTemp("/tmp", "pgscript")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(cache, 0o755))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	require.NoError(t, listener.Close())
	script := filepath.Join("..", "..", "scripts", "postgres.sh")
	run := func(words ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(script, append(words, "--port", port)...)
		cmd.Env = append(os.Environ(), "SYNCHRONIZER_CACHE="+cache, "PATH="+withoutEngines(t))
		out, err := cmd.CombinedOutput()
		if err != nil {
			require.NotNil(t, cmd.ProcessState, "%v", err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	t.Cleanup(func() {
		run("stop")
		require.NoError(t, os.RemoveAll(cache))
	})
	_, code := run("status")
	require.Equal(t, 3, code)
	_, code = run("no-such-word")
	require.Equal(t, 2, code)

	out, code := run()
	require.Equal(t, 0, code, out)
	url := regexp.MustCompile(`"url": "([^"]+)"`).FindStringSubmatch(out)
	require.Len(t, url, 2, out)
	_, err = query(t, url[1], "CREATE TABLE x (name text)")
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

// withoutEngines is a PATH in which neither Docker nor Podman answers.
func withoutEngines(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, engine := range []string{"docker", "podman"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, engine), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	}
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}
