// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"os"

	"synchronizer/internal/filelock"
)

// ErrInUse: another process (or another DB of this one) has the file open.
var ErrInUse = errors.New("in use by another process")

// acquireLock takes the lock of the database at path.
func acquireLock(path string) (*os.File, error) {
	name := path + ".lock"
	file, err := filelock.Take(name)
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fmt.Errorf("%w: %s is locked; stop the other process or use another data directory", ErrInUse, name)
	case err != nil:
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	return file, nil
}
