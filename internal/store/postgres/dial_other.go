// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package postgres

import "syscall"

func limitUnacknowledged(string, string, syscall.RawConn) error { return nil }
