// SPDX-License-Identifier: Apache-2.0

package link

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// setUserTimeout makes the kernel give up a connection whose data nobody
// acknowledges. Without it a write to a machine that is gone seems to succeed
// for up to 15 minutes.
func setUserTimeout(network, _ string, raw syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return nil
	}
	var optErr error
	err := raw.Control(func(fd uintptr) {
		optErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(tcpUserTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return optErr
}
