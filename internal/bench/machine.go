// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Machine is where a figure was measured. What cannot be found out is empty.
type Machine struct {
	CPU         string `json:"cpu,omitempty"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memoryBytes,omitempty"`
	Kernel      string `json:"kernel,omitempty"`
	Go          string `json:"go"`
	System      string `json:"system"`
	Commit      string `json:"commit,omitempty"`
	// Load is the load average of the last minute before the run: above about 0.3,
	// something else had a part of the cores.
	Load float64 `json:"load"`
}

// thisMachine reads the facts.
func thisMachine() Machine {
	m := Machine{
		CPU: procField("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(),
		Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Commit: commit(),
	}
	if kib, err := strconv.ParseInt(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.MemoryBytes = kib << 10
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(text), " ")
		m.Load, _ = strconv.ParseFloat(first, 64)
	}
	return m
}

// procField is the value of the first line "name: value" of a file.
func procField(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// commit is the one that the program was built from: of its build information, or
// of SYNCHRONIZER_COMMIT where that was left out.
func commit() string {
	revision, modified := os.Getenv("SYNCHRONIZER_COMMIT"), ""
	if info, ok := debug.ReadBuildInfo(); ok && revision == "" {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value[:min(len(s.Value), 12)]
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = " with changes"
			}
		}
	}
	return revision + modified
}
