// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package scenario

import "os/exec"

// endWithParent does nothing: only Linux ends a child with its parent.
func endWithParent(*exec.Cmd) {}
