// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package bench

import (
	"errors"
	"syscall"
)

func usageOf(int) (usage, error) {
	return usage{}, errors.New("CPU time and memory of a process can only be measured on Linux: run the benchmark there")
}

func ownGroup() *syscall.SysProcAttr { return nil }
