// SPDX-License-Identifier: Apache-2.0

package brokers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// stopPatience is how long an orderly end may take before it is an error.
	stopPatience = 30 * time.Second
	// startPatience is generous: several brokers may start at once on a small machine.
	startPatience = 2 * time.Minute
	pollPause     = 20 * time.Millisecond
)

// command is a broker's program.
type command struct {
	name string // for messages
	path string
	args []string
	env  []string // besides those of this process
	dir  string   // working directory; empty: that of this process
	log  string   // file that gets standard output and error, at its end
}

// process is a running command in a process group of its own.
type process struct {
	command
	pid int
	// ended is closed when the process is gone and reaped; err is its exit then.
	ended chan struct{}
	err   error
}

// startProcess starts the command. The caller ends it with stop or kill; it is
// killed by the kernel when this process dies.
func startProcess(c command) (*process, error) {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening log of %s: %w", c.name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own handle
	cmd := exec.Command(c.path, c.args...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, log, log
	cmd.SysProcAttr = endWithParent()
	p := &process{command: c, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ends the child when the thread that started it ends, so this
		// thread has to live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	return p, nil
}

// await asks until ready says yes. It is an error if the process ends before, or
// takes too long; then it is killed.
func (p *process) await(ready func() bool) error {
	limit := time.NewTimer(startPatience)
	defer limit.Stop()
	pause := time.NewTicker(pollPause)
	defer pause.Stop()
	for !ready() {
		select {
		case <-pause.C:
		case <-p.ended:
			return fmt.Errorf("starting %s: it ended (%w); end of its log:\n%s", p.name, p.err, tail(p.log, 30))
		case <-limit.C:
			p.kill()
			return fmt.Errorf("starting %s: not ready after %s; end of its log:\n%s", p.name, startPatience, tail(p.log, 30))
		}
	}
	return nil
}

// stop asks the process to end and waits for it. What status it ends with is its
// own affair: many answer a signal with one of their own.
func (p *process) stop() error {
	p.signal(syscall.SIGTERM)
	limit := time.NewTimer(stopPatience)
	defer limit.Stop()
	select {
	case <-p.ended:
		return nil
	case <-limit.C:
		p.kill()
		return fmt.Errorf("stopping %s: still running after %s, killed; end of its log:\n%s", p.name, stopPatience, tail(p.log, 30))
	}
}

// kill ends the whole group without its consent and waits until the process is
// gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// running tells whether the process has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// tail returns the last lines of a file for a person to read.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// errTries is wrapped when a broker did not start with several sets of ports.
var errTries = errors.New("tried other ports as well")

// signal goes to the whole group, unless the process is gone: its number may
// belong to another one then.
func (p *process) signal(s syscall.Signal) {
	if p.running() {
		_ = syscall.Kill(-p.pid, s)
	}
}
