// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// LatencyOptions configure Latency.
type LatencyOptions struct {
	Programs
	SourceOptions
	Rate     float64 // changes per second
	Duration time.Duration
	Runs     int
	Command  string
	Progress *Progress
}

const (
	groupLatency = "from a change to its committed row"
	groupChanges = "changes"
	// idleRate is the greatest rate at which a system counts as idle.
	idleRate = 10
	// drainTimeout is how long nothing may be committed before the rest counts as
	// not seen.
	drainTimeout = 5 * time.Second
)

// Latency measures, on a synchronized system, the time from a change (the stub
// gives it to the watch, or the real API server answers the patch) until the row is
// committed and can be read.
func Latency(ctx context.Context, o LatencyOptions) (_ *Report, err error) {
	report := &Report{
		Benchmark: fmt.Sprintf("latency at %s changes/s, %s", number(o.Rate), o.apiServer()),
		Command:   o.Command, At: time.Now(), Machine: thisMachine(), Runs: o.Runs,
	}
	src, err := o.open(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	about := src.data()
	report.Data = &about
	var profiles stageTotals
	for run := range o.Runs {
		if run > 0 {
			if err := src.renew(); err != nil {
				return nil, err
			}
		}
		if err := o.run(ctx, report, src, run, &profiles); err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", run+1, o.Runs, err)
		}
	}
	profiles.add(report, "change", float64(o.changesPerRun()*o.Runs))
	report.Notes = append(report.Notes, "Times are seen by a reader that looks every millisecond; they include up to that much.")
	if f, ok := report.figure(groupChanges, "not seen"); ok && slices.Max(f.Values) > 0 {
		report.Notes = append(report.Notes, "Changes that were not seen are those whose object had changed again before it was stored: take more objects (--objects).")
	}
	return report, nil
}

func (o *LatencyOptions) run(ctx context.Context, report *Report, src source, run int, profiles *stageTotals) (err error) {
	r, err := newRig(o.Programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.startBackend(ctx, fmt.Sprintf("latency-%d-backend", run)); err != nil {
		return err
	}
	if err := r.startClient(ctx, deploymentsOf(src, strategyPatch), fmt.Sprintf("latency-%d-client", run)); err != nil {
		return err
	}
	if err := r.awaitStored(ctx, src.data().Objects, o.Progress); err != nil {
		return err
	}
	if _, err := r.awaitQuiet(ctx); err != nil {
		return err
	}
	clientBefore, serverBefore, err := r.usages()
	if err != nil {
		return err
	}
	if err := r.nextPhase(ctx); err != nil {
		return err
	}
	n := o.changesPerRun()
	start := time.Now()
	rows, err := o.changes(ctx, r, src, n)
	if err != nil {
		return err
	}
	took := time.Since(start)
	client, server, err := r.usages()
	if err != nil {
		return err
	}

	latencies := measure(rows, src.changed)
	if len(latencies) == 0 {
		return fmt.Errorf("none of %d changes was stored; the end of the logs:\nclient: %s\nbackend: %s", n, r.client.tail(), r.backend.tail())
	}
	goal50, goal99 := below(20), (*Goal)(nil)
	if o.Rate > idleRate {
		goal99 = below(250)
	}
	report.add(groupLatency, "p50", "ms", milliseconds(quantile(latencies, .50)), goal50)
	report.add(groupLatency, "p90", "ms", milliseconds(quantile(latencies, .90)), nil)
	report.add(groupLatency, "p99", "ms", milliseconds(quantile(latencies, .99)), goal99)
	report.add(groupLatency, "max", "ms", milliseconds(quantile(latencies, 1)), nil)
	report.add(groupChanges, "made", "", float64(n), nil)
	report.add(groupChanges, "not seen", "", float64(n-len(latencies)), atMost(0))
	report.add(groupChanges, "seen per second", "/s", float64(len(latencies))/took.Seconds(), nil)
	changes := float64(n)
	report.add(groupChanges, "CPU time per change, client", "µs", float64((client.CPU-clientBefore.CPU).Microseconds())/changes, nil)
	report.add(groupChanges, "CPU time per change, backend", "µs", float64((server.CPU-serverBefore.CPU).Microseconds())/changes, nil)
	report.add(groupClient, "RSS, greatest", "MiB", float64(client.PeakRSS)/mebibyte, nil)
	report.add(groupServer, "RSS, greatest", "MiB", float64(server.PeakRSS)/mebibyte, nil)
	if err := r.nextPhase(ctx); err != nil {
		return err
	}
	return profiles.read(r, 1)
}

func (o *LatencyOptions) changesPerRun() int { return max(1, int(o.Rate*o.Duration.Seconds())) }

// changes makes n changes and watches their rows until all were seen or nothing
// more comes.
func (o *LatencyOptions) changes(ctx context.Context, r *rig, src source, n int) (seen, error) {
	c, err := openCommits(ctx, filepath.Join(r.dataDir(), "synchronizer.db"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.db.Close() }()
	o.Progress.Start("changing", n)
	defer o.Progress.Stop()

	g, ctx := errgroup.WithContext(ctx)
	reading, stop := context.WithCancel(ctx)
	var count atomic.Int64
	g.Go(func() error {
		return c.follow(reading, func(seen int) {
			count.Store(int64(seen))
			o.Progress.Set(seen)
		})
	})
	g.Go(func() error {
		defer stop()
		if err := src.change(ctx, n, o.Rate); err != nil {
			return err
		}
		last, since := count.Load(), time.Now()
		return await(ctx, r.client, 24*time.Hour, pollInterval, "the changes to be stored", func() (bool, error) {
			if now := count.Load(); now != last {
				last, since = now, time.Now()
			}
			return last >= int64(n) || time.Since(since) > drainTimeout, r.backend.ended()
		})
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return c.seen, nil
}

// measure gives the sorted times of all rows whose change is known. A row may be
// seen before the API server's answer has come: that is no time at all.
func measure(rows seen, changed func(version) (time.Time, bool)) []time.Duration {
	var latencies []time.Duration
	for v, at := range rows {
		if from, ok := changed(v); ok {
			latencies = append(latencies, max(0, at.Sub(from)))
		}
	}
	slices.Sort(latencies)
	return latencies
}
