// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel end the child when the test dies in whatever way.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
