// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package link

import (
	"syscall"
	"time"
)

// userTimeout is only known to Linux; elsewhere keep-alive has to do.
func userTimeout(time.Duration) func(string, string, syscall.RawConn) error { return nil }
