// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ownGroupAs is ownGroup as another user, unless uid is below zero.
func ownGroupAs(uid, gid int) *syscall.SysProcAttr {
	attributes := ownGroup()
	if uid >= 0 {
		attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return attributes
}

// cpu is the time of the server's processes: those that run, and those that have
// ended and been waited for.
func (s *postgresServer) cpu() (time.Duration, error) {
	var total time.Duration
	server := strconv.Itoa(s.cmd.Process.Pid)
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of PostgreSQL: %w", err)
	}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := cutLast(string(text), ") ")
		fields := strings.Fields(rest) // from the state on; the parent is the second
		if len(fields) < 15 {
			continue
		}
		own := filepath.Base(filepath.Dir(file)) == server
		if !own && fields[1] != server {
			continue
		}
		times := fields[11:13]
		if own {
			times = fields[11:15]
		}
		for _, field := range times {
			if ticks, err := strconv.ParseInt(field, 10, 64); err == nil {
				total += time.Duration(ticks) * clockTick
			}
		}
	}
	return total, nil
}
