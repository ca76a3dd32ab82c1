// SPDX-License-Identifier: Apache-2.0

package postgres

import "syscall"

// limitUnacknowledged lets the kernel give up a connection whose peer has not
// acknowledged what was sent to it for half a minute.
func limitUnacknowledged(network, _ string, c syscall.RawConn) error {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil
	}
	const tcpUserTimeout, milliseconds = 0x12, 30_000
	var err error
	if controlErr := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, milliseconds)
	}); controlErr != nil {
		return controlErr
	}
	return err
}
