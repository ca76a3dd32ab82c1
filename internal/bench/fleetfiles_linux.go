// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"syscall"
)

// allowFiles makes sure that this process, and those that it starts, may open so
// many files.
func allowFiles(n uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading how many files may be open: %w", err)
	}
	limit.Cur = max(limit.Cur, n)
	allowed := limit.Max
	limit.Max = max(limit.Max, n) // above what it was, only root may
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("opening a connection per client: %d files are needed and %d allowed; raise the limit (ulimit -Hn) or choose fewer --clients: %w", n, allowed, err)
	}
	return nil
}
