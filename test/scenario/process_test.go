// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// process is a child process of the built program.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	ended chan struct{} // closed when it is gone
}

// startProcess runs the program until kill or the end of the test.
func startProcess(t testing.TB, args ...string) *process {
	t.Helper()
	return startCommand(t, args[0], exec.Command(program, args...))
}

// startCommand runs a command until kill or the end of the test; what it has in
// Env is added to a bare environment. called names it in the log.
func startCommand(t testing.TB, called string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, ended: make(chan struct{})}
	p.cmd.Env = append(bareEnvironment(), cmd.Env...)
	p.cmd.Stderr = newLog(t, called)
	endWithParent(p.cmd)
	started := make(chan error)
	go func() {
		// The kernel ends the child with the thread that started it.
		runtime.LockOSThread()
		defer close(p.ended)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // it is killed
		}
	}()
	require.NoError(t, <-started)
	t.Cleanup(p.kill)
	return p
}

// kill ends the process at once (SIGKILL) and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone
	<-p.ended
}

// runs tells whether the process has not ended.
func (p *process) runs() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// bareEnvironment has nothing that configures the program.
func bareEnvironment() []string {
	var list []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if name != "KUBECONFIG" && name != "CONFIG" && !strings.HasPrefix(name, "SYNCHRONIZER_") {
			list = append(list, variable)
		}
	}
	return list
}

// ports are those of a backend that comes back on them.
type ports struct{ clients, api string }

// reserve finds ports below those that the kernel gives to whoever asks for any,
// so that nobody else takes them while the backend is away.
func reserve(t testing.TB) ports {
	t.Helper()
	free := func() string {
		for range 100 {
			address := net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(20_000)))
			if l, err := net.Listen("tcp", address); err == nil {
				require.NoError(t, l.Close())
				return address
			}
		}
		require.FailNow(t, "no free port")
		return ""
	}
	return ports{clients: free(), api: free()}
}

// startBackendProcess runs "synchronizer up" on the data in dir.
func startBackendProcess(t testing.TB, dir string, at ports) (*process, *backend) {
	t.Helper()
	addresses := filepath.Join(dir, "addresses.json")
	_ = os.Remove(addresses) // of a process that was killed
	p := startProcess(t, "up", "--data-dir", dir, "--listen", at.clients, "--api-listen", at.api, "--health-port", "0")
	eventually(t, "the backend is ready", func() bool {
		_, err := os.Stat(addresses)
		return err == nil || !p.runs()
	})
	require.True(t, p.runs(), "the backend has ended")
	text, err := os.ReadFile(addresses)
	require.NoError(t, err)
	var listens struct{ Clients, API string }
	require.NoError(t, json.Unmarshal(text, &listens))
	require.Equal(t, at, ports{clients: listens.Clients, api: listens.API})
	b := &backend{clients: listens.Clients, accessKey: secret(t, dir, "access-key"), tokenFile: filepath.Join(dir, "api-token")}
	b.api = newAPI(t, listens.API, secret(t, dir, "api-token"))
	return p, b
}

func secret(t testing.TB, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

// startClientProcess runs "synchronizer agent".
func (w *world) startClientProcess(to target) *process {
	w.t.Helper()
	return startProcess(w.t, "agent", "--config", w.configFile(to), "--kubeconfig", w.kubeconfig)
}
