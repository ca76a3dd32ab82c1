// SPDX-License-Identifier: Apache-2.0

package kubetest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/test/kubetest"
)

// abandonVariable names the folder in which the test program, run again as a
// child, starts a cluster that nobody will stop.
const abandonVariable = "KUBETEST_ABANDON"

// abandon starts a cluster, says its process id and waits to be killed.
func abandon(dir string) int {
	cluster, err := kubetest.StartMain(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(cluster.PID())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func TestServerEndsWhenItsStarterIsKilled(t *testing.T) {
	kubetest.Require(t, startErr)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), abandonVariable+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = stdin.Close() }()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(line, &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0))

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return gone(pid) }, 20*time.Second, 20*time.Millisecond)
}

// gone reports whether a process has ended. An orphan may stay a zombie where
// nobody collects it, as in a container whose first process is not an init.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(state, "Z")
}

// recorder is a test that only remembers how it ended.
type recorder struct {
	testing.TB
	skipped, failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Skip(...any)           { r.skipped = true }
func (r *recorder) Fatalf(string, ...any) { r.failed = true }

func TestMissingProgramSkipsExceptInCI(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := kubetest.Binary(t.Context())
	require.ErrorIs(t, err, kubetest.ErrNotBuilt)
	_, err = kubetest.StartMain(t.TempDir())
	require.ErrorIs(t, err, kubetest.ErrNotBuilt)
	require.ErrorContains(t, err, "make test")

	for ci, want := range map[string]recorder{"": {skipped: true}, "true": {failed: true}} {
		t.Setenv("CI", ci)
		var got recorder
		kubetest.Require(&got, err)
		require.Equal(t, want, got, "CI=%q", ci)
	}
}

func TestBuildReturnsWhatIsBuilt(t *testing.T) {
	kubetest.Require(t, startErr)
	want, err := kubetest.Binary(t.Context())
	require.NoError(t, err)
	var progress strings.Builder
	got, err := kubetest.Build(t.Context(), &progress)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Empty(t, progress.String())
}
