// SPDX-License-Identifier: Apache-2.0

//go:build unix

package filelock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Take makes the file if there is none and locks it. The operating system gives
// the lock back when the process ends, however it ends; closing the file does so
// before.
func Take(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = ErrHeld
	default:
		err = fmt.Errorf("locking %s: %w", name, err)
	}
	_ = f.Close()
	return nil, err
}
