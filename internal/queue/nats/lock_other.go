// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package nats

import "os"

// lock cannot keep other processes out on this operating system; it shows that
// the directory can be written to.
func lock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
