// SPDX-License-Identifier: Apache-2.0

//go:build unix

package nats

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock takes the file for this process; the operating system gives it back when
// the process ends, however it ends.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.New("another process uses it")
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return f, nil
}
