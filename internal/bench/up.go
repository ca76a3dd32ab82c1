// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// UpOptions configure Up.
type UpOptions struct {
	Programs
	SourceOptions
	Runs     int
	Idle     time.Duration // from ready to the look at the memory
	Command  string
	Progress *Progress
}

const (
	groupStart     = "start of `synchronizer up` until it is ready"
	groupUpIdle    = "idle, no client"
	groupUpCluster = "idle, with a client for the stub API server"
)

// Up measures the process that holds everything: its first start in an empty
// folder, its next start, and its memory when nothing happens, without and with a
// client in it.
func Up(ctx context.Context, o UpOptions) (_ *Report, err error) {
	report := &Report{Benchmark: "up", Command: o.Command, At: time.Now(), Machine: thisMachine(), Runs: o.Runs}
	src, err := openStub(o.SourceOptions)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	about := src.data()
	report.Data = &about
	for run := range o.Runs {
		if err := o.run(ctx, report, src); err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", run+1, o.Runs, err)
		}
	}
	return report, nil
}

func (o *UpOptions) run(ctx context.Context, report *Report, src source) (err error) {
	programs := o.Programs
	programs.Profiles = "" // a start is not to be slowed down
	r, err := newRig(programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	start := func(name string, more ...string) error {
		began := time.Now()
		if err := r.startBackend(ctx, "", more...); err != nil {
			return err
		}
		if name != "" {
			report.add(groupStart, name, "ms", milliseconds(time.Since(began)), below(1000))
		}
		return nil
	}
	if err := start("first start, in an empty folder"); err != nil {
		return err
	}
	if err := r.stopBackend(); err != nil {
		return err
	}
	if err := start("next start"); err != nil {
		return err
	}
	if err := o.idle(ctx, report, r, groupUpIdle, below(96)); err != nil {
		return err
	}
	if err := r.stopBackend(); err != nil {
		return err
	}
	if err := start("", "--kubeconfig", src.kubeconfig(), "--cluster", clusterName); err != nil {
		return err
	}
	n := src.data().Objects
	err = await(ctx, r.backend, time.Minute, pollInterval, "the objects to be stored", func() (bool, error) {
		stored, err := r.stored(ctx)
		return stored >= n, err
	})
	if err != nil {
		return err
	}
	return o.idle(ctx, report, r, groupUpCluster, nil)
}

// idle waits and reads memory and CPU time.
func (o *UpOptions) idle(ctx context.Context, report *Report, r *rig, group string, goal *Goal) error {
	before, err := r.backend.usage()
	if err != nil {
		return err
	}
	o.Progress.Start("idle", 0)
	defer o.Progress.Stop()
	if err := wait(ctx, o.Idle); err != nil {
		return err
	}
	now, err := r.backend.usage()
	if err != nil {
		return err
	}
	var private *Goal
	if group == groupUpIdle {
		private = below(32)
	}
	report.add(group, "RSS", "MiB", float64(now.RSS)/mebibyte, goal)
	report.add(group, "private memory (RssAnon)", "MiB", float64(now.Anon)/mebibyte, private)
	report.add(group, "CPU time per second", "ms", milliseconds(now.CPU-before.CPU)/o.Idle.Seconds(), nil)
	return nil
}
