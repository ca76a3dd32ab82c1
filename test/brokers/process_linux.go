// SPDX-License-Identifier: Apache-2.0

package brokers

import "syscall"

func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
