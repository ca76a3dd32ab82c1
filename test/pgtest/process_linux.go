// SPDX-License-Identifier: Apache-2.0

package pgtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
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

// childrenOf are the processes that a process has started. Each of a server's is in
// a group of its own.
func childrenOf(parent int) (children []int) {
	places, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, place := range places {
		stat, err := os.ReadFile(place)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent …"; the name may have spaces and parentheses.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(place))); err == nil {
			children = append(children, pid)
		}
	}
	return children
}
