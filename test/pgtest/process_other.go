// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package pgtest

import (
	"errors"
	"syscall"
)

func attributes(owner *owner) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if owner != nil {
		attr.Credential = &syscall.Credential{Uid: owner.uid, Gid: owner.gid}
	}
	return attr
}

func mountMemory(string, int64) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }

// childrenOf knows of none; they notice by themselves that their parent has gone.
func childrenOf(int) []int { return nil }
