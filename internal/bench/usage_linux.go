// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of CPU times in /proc, which Linux fixes for programs.
const clockTick = 10 * time.Millisecond

// usageOf reads what Linux says of a process.
func usageOf(pid int) (usage, error) {
	var u usage
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return u, fmt.Errorf("reading the use of a process: %w", err)
	}
	// The name, in parentheses, may hold anything; utime and stime are the 12th and
	// 13th field behind it.
	_, rest, _ := cutLast(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return u, errors.New("reading the use of a process: unknown form of /proc/PID/stat")
	}
	for _, text := range fields[11:13] {
		ticks, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return u, fmt.Errorf("reading the use of a process: %w", err)
		}
		u.CPU += time.Duration(ticks) * clockTick
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return u, fmt.Errorf("reading the use of a process: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		var into *int64
		switch key {
		case "VmHWM":
			into = &u.PeakRSS
		case "VmRSS":
			into = &u.RSS
		case "RssAnon":
			into = &u.Anon
		default:
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return u, fmt.Errorf("reading the use of a process: %s: %w", key, err)
		}
		*into = kib << 10
	}
	return u, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// ownGroup keeps the Ctrl-C of a terminal from the children, which are ended in
// order, and ends them with this process, however that ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
