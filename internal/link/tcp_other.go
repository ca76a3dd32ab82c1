// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package link

import "syscall"

// setUserTimeout is only known to Linux; elsewhere keep-alive has to do.
func setUserTimeout(string, string, syscall.RawConn) error { return nil }
