// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// StageTime is the CPU time of one stage of a process.
type StageTime struct {
	Stage string
	CPU   time.Duration
}

// stageOfEntry names the stage of what is called by a function, where one package
// has two stages.
var stageOfEntry = map[string]string{
	"synchronizer/internal/checksum.V1":       "checksum v1",
	"synchronizer/internal/checksum.ObjectV1": "checksum v1",
	"synchronizer/internal/checksum.V2":       "digest",
}

// stageOf names the stage of a package and of everything below it. Packages that
// every stage uses (such as rawjson) are not in it: their time is the caller's.
var stageOf = map[string]string{
	"synchronizer/internal/agent":     "agent",
	"synchronizer/internal/api":       "api",
	"synchronizer/internal/filter":    "transform",
	"synchronizer/internal/ingest":    "ingest",
	"synchronizer/internal/kube":      "list and watch",
	"synchronizer/internal/link":      "link",
	"synchronizer/internal/wire":      "link",
	"synchronizer/internal/patch":     "patch",
	"synchronizer/internal/diff":      "patch",
	"synchronizer/internal/policy":    "transform",
	"synchronizer/internal/queue":     "queue",
	"synchronizer/internal/relay":     "relay",
	"synchronizer/internal/store":     "store",
	"synchronizer/internal/telemetry": "metrics",
	"github.com/coder/websocket":      "link",
	"github.com/nats-io":              "queue",
	"github.com/prometheus":           "metrics",
	"modernc.org/sqlite":              "store",
}

// Stages tells which stage used the CPU time of a profile, the greatest first. A
// sample belongs to the innermost function whose package is of a stage, so that a
// stage has what it spends in the runtime, in system calls and in helpers. What
// no stage called is "garbage collection", "scheduler", "http" or "other".
func Stages(p *profile.Profile) []StageTime {
	value := len(p.SampleType) - 1
	for i, t := range p.SampleType {
		if t.Type == "cpu" {
			value = i
		}
	}
	total := map[string]time.Duration{}
	for _, s := range p.Sample {
		total[stageOfSample(s)] += time.Duration(s.Value[value])
	}
	return sortStages(total)
}

func sortStages(total map[string]time.Duration) []StageTime {
	stages := make([]StageTime, 0, len(total))
	for name, cpu := range total {
		stages = append(stages, StageTime{name, cpu})
	}
	slices.SortFunc(stages, func(a, b StageTime) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), strings.Compare(a.Stage, b.Stage))
	})
	return stages
}

// readStages is Stages of a file.
func readStages(path string) ([]StageTime, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading CPU profile: %w", err)
	}
	defer func() { _ = file.Close() }()
	p, err := profile.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("reading CPU profile %s: %w", path, err)
	}
	return Stages(p), nil
}

func stageOfSample(s *profile.Sample) string {
	fallback := "other"
	for _, location := range s.Location {
		for _, line := range location.Line { // the innermost first
			if line.Function == nil {
				continue
			}
			name := line.Function.Name
			if stage := stageOfFunction(name); stage != "" {
				return stage
			}
			if found := ownerOfFunction(name); found != "" {
				fallback = found
			}
		}
	}
	return fallback
}

// stageOfFunction finds the stage of the package, or of the folder above.
func stageOfFunction(name string) string {
	if stage := stageOfEntry[name]; stage != "" {
		return stage
	}
	for path := packageOf(name); path != ""; {
		if stage := stageOf[path]; stage != "" {
			return stage
		}
		cut := strings.LastIndexByte(path, '/')
		if cut < 0 {
			return ""
		}
		path = path[:cut]
	}
	return ""
}

// ownerOfFunction names what a stack without a stage belongs to.
func ownerOfFunction(name string) string {
	switch name {
	case "runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart":
		return "garbage collection"
	case "runtime.mcall", "runtime.mstart", "runtime.sysmon":
		return "scheduler"
	}
	if packageOf(name) == "net/http" {
		return "http"
	}
	return ""
}

// packageOf is the import path in a symbol such as "a/b.(*T).M" or "a/b.F[...]".
func packageOf(symbol string) string {
	if cut := strings.IndexByte(symbol, '['); cut >= 0 {
		symbol = symbol[:cut]
	}
	if cut := strings.IndexByte(symbol, '('); cut >= 0 {
		symbol = symbol[:cut]
	}
	slash := strings.LastIndexByte(symbol, '/')
	dot := strings.IndexByte(symbol[slash+1:], '.')
	if dot < 0 {
		return symbol
	}
	return symbol[:slash+1+dot]
}

// stageTotals adds up the stages of all runs: a run has too few samples (100 a
// second) to tell small stages.
type stageTotals struct{ client, backend map[string]time.Duration }

// read ends the processes, which completes their profiles, and adds those of one
// phase.
func (t *stageTotals) read(r *rig, phase int) error {
	if r.backendProfile == "" {
		return nil
	}
	if err := errors.Join(r.stopClient(), r.stopBackend()); err != nil {
		return err
	}
	for _, p := range []struct {
		base string
		into *map[string]time.Duration
	}{{r.clientProfile, &t.client}, {r.backendProfile, &t.backend}} {
		if p.base == "" {
			continue
		}
		stages, err := readStages(profileFile(p.base, phase))
		if err != nil {
			return err
		}
		if *p.into == nil {
			*p.into = map[string]time.Duration{}
		}
		for _, s := range stages {
			(*p.into)[s.Stage] += s.CPU
		}
	}
	return nil
}

// add puts the stages into the report, per so many units ("object") in all runs.
func (t *stageTotals) add(report *Report, unit string, units float64) {
	for _, p := range []struct {
		process string
		total   map[string]time.Duration
	}{{groupClient, t.client}, {groupServer, t.backend}} {
		for _, s := range sortStages(p.total) {
			report.add(fmt.Sprintf("%s: CPU time per %s and stage, all runs", p.process, unit), s.Stage, "µs", float64(s.CPU.Nanoseconds())/1e3/units, nil)
		}
	}
}
