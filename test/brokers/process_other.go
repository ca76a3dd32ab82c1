// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package brokers

import "syscall"

// endWithParent: only Linux can end a child with its parent.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
