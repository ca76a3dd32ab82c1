// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const limit = 30 * time.Second

// program runs executables in a folder of their own, with nothing of this
// process's environment but what they need.
type program struct {
	t    *testing.T
	path string
	dir  string
	env  []string // NAME=value
}

// newProgram is the command line itself: this test binary is it when asProgram
// is in its environment.
func newProgram(t *testing.T, env ...string) *program {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	// The race detector makes a program that ends with 0 wait for a second.
	return &program{t: t, path: self, dir: t.TempDir(), env: append(env, asProgram+"=1", "GORACE=atexit_sleep_ms=0")}
}

func (p *program) command(args []string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), p.path, args...)
	cmd.Dir = p.dir
	cmd.Env = append([]string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH")}, append(p.env, env...)...)
	return cmd
}

// run runs it to its end.
func (p *program) run(args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	var out, diagnostics bytes.Buffer
	cmd := p.command(args)
	cmd.Stdout, cmd.Stderr = &out, &diagnostics
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(p.t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), diagnostics.String()
}

// process is one that goes on running.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  output
	done chan struct{}
}

type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs it in the background; it is killed with the test if it has not
// ended by then.
func (p *program) start(args []string, env ...string) *process {
	p.t.Helper()
	r := &process{t: p.t, cmd: p.command(args, env...), done: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	require.NoError(p.t, r.cmd.Start())
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait() // its state says how it ended
	}()
	p.t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // it may have ended
		<-r.done
	})
	return r
}

// says waits until the output has what the expression describes, and returns its
// first group.
func (r *process) says(expression string) string {
	r.t.Helper()
	wanted := regexp.MustCompile(expression)
	var found []string
	require.Eventually(r.t, func() bool {
		found = wanted.FindStringSubmatch(r.out.String())
		return found != nil
	}, limit, 10*time.Millisecond, "output has no %s", expression)
	return found[len(found)-1]
}

// wait waits for its end.
func (r *process) wait() (code int) {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(limit):
		require.FailNow(r.t, "the process does not end", r.out.String())
	}
	return r.cmd.ProcessState.ExitCode()
}

// terminate asks it to end, as an orchestrator does.
func (r *process) terminate() (code int) {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Process.Signal(syscall.SIGTERM))
	return r.wait()
}

// addresses waits until a backend in the folder is ready and says where it listens.
func (p *program) addresses() (a struct{ Clients, API, Health string }) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		text, err := os.ReadFile(filepath.Join(p.dir, "data", addressesFile))
		return err == nil && json.Unmarshal(text, &a) == nil
	}, limit, 10*time.Millisecond, "the backend does not become ready")
	return a
}

// write makes a file in the folder and returns its path.
func (p *program) write(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	require.NoError(p.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(p.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// kubeconfig makes one for an API server without authentication.
func (p *program) kubeconfig(server string) string {
	p.t.Helper()
	return p.write("kubeconfig", `{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"x","cluster":{"server":"`+
		server+`"}}],"users":[{"name":"x","user":{}}],"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}]}`)
}
