// SPDX-License-Identifier: Apache-2.0

package pgtest

import (
	"os"
	"syscall"
)

// attributes let the process end with this one. Who is root becomes another
// user: neither initdb nor postgres runs as root.
func attributes(owner *owner) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if owner != nil {
		attr.Credential = &syscall.Credential{Uid: owner.uid, Gid: owner.gid}
	}
	return attr
}

// mountMemory puts a file system of so many bytes at dir.
func mountMemory(dir string, bytes int64) error {
	return os.NewSyscallError("mount", syscall.Mount("tmpfs", dir, "tmpfs", 0, sizeOption(bytes)))
}

func unmount(dir string) error {
	return os.NewSyscallError("umount", syscall.Unmount(dir, syscall.MNT_DETACH))
}
