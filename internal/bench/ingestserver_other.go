// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package bench

import (
	"errors"
	"syscall"
	"time"
)

func ownGroupAs(int, int) *syscall.SysProcAttr { return nil }

func (s *postgresServer) cpu() (time.Duration, error) {
	return 0, errors.New("CPU time of a process can only be measured on Linux: run the benchmark there")
}
