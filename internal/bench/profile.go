// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// Profiled runs fn under the CPU profiler. SIGUSR1 ends a profile and begins the
// next one, so that a benchmark can tell its phases apart; they are the files
// base-0.pprof, base-1.pprof and so on, whole when fn has returned. Beside each is
// base-0.heap: what the heap held at the end of it, and all that was allocated.
func Profiled(base string, fn func() error) error {
	next := make(chan os.Signal, 1)
	signal.Notify(next, syscall.SIGUSR1)
	defer signal.Stop(next)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for phase := 0; ; phase++ {
			more, err := profilePhase(profileFile(base, phase), next, stop)
			if err == nil {
				err = writeHeap(fmt.Sprintf("%s-%d.heap", base, phase))
			}
			if err != nil || !more {
				done <- err
				return
			}
		}
	}()
	err := fn()
	close(stop)
	return errors.Join(err, <-done)
}

// profileFile is the file of a phase.
func profileFile(base string, phase int) string { return fmt.Sprintf("%s-%d.pprof", base, phase) }

// profilePhase writes one profile; more is whether another one follows.
func profilePhase(path string, next <-chan os.Signal, stop <-chan struct{}) (more bool, err error) {
	file, err := os.Create(path)
	if err != nil {
		return false, fmt.Errorf("writing CPU profile: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return false, fmt.Errorf("writing CPU profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	select {
	case <-next:
		return true, nil
	case <-stop:
		return false, nil
	}
}

// writeHeap writes a profile of the memory in use, as the last collection left it.
func writeHeap(path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing heap profile: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.WriteHeapProfile(file); err != nil {
		return fmt.Errorf("writing heap profile: %w", err)
	}
	return nil
}
