// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package filelock

import "os"

// Take cannot keep other processes out on this operating system; it shows that the
// file can be written to.
func Take(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
}
