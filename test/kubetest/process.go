// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// stopPatience is how long an orderly end may take before it is an error.
const stopPatience = 20 * time.Second

// process is the running program. It ends when its standard input closes, which
// the kernel does when this process dies in whatever way. (A death signal set on
// the child would fire already when the thread that started it ends.)
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	// ended is closed when the process is gone; err is its exit then.
	ended chan struct{}
	err   error
}

// startProcess starts the program, appends what it logs to logFile, and returns
// when it has said that it is ready, with the address that it named.
func startProcess(binary string, args []string, logFile string) (*process, string, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, "", fmt.Errorf("opening log: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own handle
	cmd := exec.Command(binary, args...)
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	p := &process{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	// The program itself gives up when it is not ready in time, and its end
	// ends this read.
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	url, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ready {
		_ = p.kill()
		return nil, "", fmt.Errorf("the API server ended before it was ready; end of its log:\n%s", tail(logFile, 20))
	}
	return p, url, nil
}

// stop asks the process to end and waits for it.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	limit := time.NewTimer(stopPatience)
	defer limit.Stop()
	select {
	case <-p.ended:
	case <-limit.C:
		_ = p.kill()
		return fmt.Errorf("stopping: still running after %s, killed", stopPatience)
	}
	_ = p.stdin.Close()
	return p.err
}

// kill ends the process without its consent and waits until it is gone.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	_ = p.stdin.Close()
	return nil
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
