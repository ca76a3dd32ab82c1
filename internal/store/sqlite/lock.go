// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrInUse: another process (or another DB of this one) has the file open.
var ErrInUse = errors.New("in use by another process")

// acquireLock takes the lock of the database at path. The lock ends with the
// process, however it ends; closing the file gives it back.
func acquireLock(path string) (*os.File, error) {
	name := path + ".lock"
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s is locked; stop the other process or use another data directory", ErrInUse, name)
	}
	return nil, fmt.Errorf("locking %s: %w", name, err)
}
