// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// usage is what a process has used so far. Memory is in bytes: resident now, its
// greatest so far, and the part of it that no file backs.
type usage struct {
	CPU                time.Duration
	RSS, PeakRSS, Anon int64
}

// process is one child. Its output goes to a file of the run's folder, of which
// errors show the end.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
	err  error         // how; read after done
}

const (
	stopTimeout = 20 * time.Second
	logTail     = 2 << 10
)

// startProcess starts a program. It ends with ctx, at the latest.
func startProcess(ctx context.Context, name, logFile string, argv ...string) (*process, error) {
	out, err := os.Create(logFile)
	if err != nil {
		return nil, fmt.Errorf("starting the %s: %w", name, err)
	}
	defer func() { _ = out.Close() }()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = environment()
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, log: logFile, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// foreign are the variables that would let a child find another configuration or
// cluster than that of the benchmark.
var foreign = []string{
	"CONFIG", "CLUSTER_CONFIG", "CLUSTER_NAME", "SERVICES", "API_URL", "KUBECONFIG", "MAX_OBJECT_SIZE",
	"RELEASE", "HELM_RELEASE", "ENABLE_PROFILER", "POD_NAMESPACE", "KS_API_AUDIENCE", "KS_API_AUTH_DISABLED",
}

// environment is this process's without what is foreign; warnings only, so that
// no log is measured.
func environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		key, _, _ := strings.Cut(entry, "=")
		return slices.Contains(foreign, key)
	})
	return append(env, "KS_LOGGER_LEVEL=warning")
}

// usage reads what the process has used; an error if it has ended.
func (p *process) usage() (usage, error) {
	if err := p.ended(); err != nil {
		return usage{}, err
	}
	return usageOf(p.cmd.Process.Pid)
}

// ended is nil while the process runs, else an error with the end of its log.
func (p *process) ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("the %s has ended (%s); the end of its log:\n%s", p.name, p.cmd.ProcessState, p.tail())
	default:
		return nil
	}
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-logTail):]))
}

// stop asks the process to end and waits until it has; after stopTimeout it is
// killed, which is an error.
func (p *process) stop() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	select {
	case <-p.done:
		return nil
	case <-limit.C:
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("the %s did not end within %s and was killed; the end of its log:\n%s", p.name, stopTimeout, p.tail())
	}
}
