// SPDX-License-Identifier: Apache-2.0

package link

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// userTimeout makes the kernel give up a connection whose data nobody
// acknowledges. Without it a write to a machine that is gone seems to succeed
// for up to 15 minutes. It is for clients only: towards a peer that does not read
// it counts as well, and clients in the field may not read for 90 s.
func userTimeout(limit time.Duration) func(network, address string, raw syscall.RawConn) error {
	return func(network, _ string, raw syscall.RawConn) error {
		if network != "tcp4" && network != "tcp6" {
			return nil
		}
		var optErr error
		err := raw.Control(func(fd uintptr) {
			optErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
		})
		if err != nil {
			return err
		}
		return optErr
	}
}
