// SPDX-License-Identifier: Apache-2.0

// Package filelock keeps a folder or file of data to one process.
package filelock

import "errors"

// ErrHeld is the error of Take when another process, or another part of this one,
// has the lock.
var ErrHeld = errors.New("another process uses it")
