// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"syscall"
	"time"

	"synchronizer/internal/checksum"
)

// checksumFor is how much CPU time is spent on measuring checksum v1.
const checksumFor = 300 * time.Millisecond

// checksumTime is the CPU time of checksum v1 per body, in µs, in this process
// and with its garbage collection. The field's link asks for this checksum of
// every object, whatever else a client does.
func checksumTime(bodies [][]byte) (float64, error) {
	if len(bodies) == 0 {
		return 0, nil
	}
	start, err := ownCPU()
	if err != nil {
		return 0, err
	}
	for done := 0; ; {
		for _, body := range bodies {
			if _, err := checksum.ObjectV1(body); err != nil {
				return 0, fmt.Errorf("measuring checksum v1: %w", err)
			}
		}
		done += len(bodies)
		now, err := ownCPU()
		if err != nil {
			return 0, err
		}
		if used := now - start; used >= checksumFor {
			return float64(used.Nanoseconds()) / 1e3 / float64(done), nil
		}
	}
}

// ownCPU is what this process has used.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("reading the CPU time of this process: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
