// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// HotObjectOptions configure HotObject.
type HotObjectOptions struct {
	Programs
	SourceOptions // of one object
	Changes       int
	Duration      time.Duration
	Runs          int
	Command       string
	Progress      *Progress
}

const (
	groupHot    = "one object that changes all the time"
	groupHotOut = "messages about it, by kind"
	// window is how long a client holds back further changes of an object by
	// default, and so how often one that changes all the time is sent.
	window = time.Second
)

// objectEvents are the messages about one object that a client sends.
var objectEvents = []string{"NewChecksum", "GetObject", "PutObject", "PatchObject", "ObjectDeleted"}

// HotObject changes one object of a synchronized system many times, evenly over
// the duration, and counts what the client sends of it, and looks whether the
// last state is stored.
func HotObject(ctx context.Context, o HotObjectOptions) (_ *Report, err error) {
	o.Objects = 1
	report := &Report{
		Benchmark: fmt.Sprintf("hot object, %s in %s, %s", plural(o.Changes, "change"), o.Duration, o.apiServer()),
		Command:   o.Command, At: time.Now(), Machine: thisMachine(), Runs: o.Runs,
	}
	src, err := o.open(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	about := src.data()
	report.Data = &about
	for run := range o.Runs {
		if run > 0 {
			if err := src.renew(); err != nil {
				return nil, err
			}
		}
		if err := o.run(ctx, report, src); err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", run+1, o.Runs, err)
		}
	}
	return report, nil
}

func (o *HotObjectOptions) run(ctx context.Context, report *Report, src source) (err error) {
	r, err := newRig(o.Programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.startBackend(ctx, ""); err != nil {
		return err
	}
	if err := r.startClient(ctx, deploymentsOf(src, strategyPatch), ""); err != nil {
		return err
	}
	if err := r.awaitStored(ctx, 1, o.Progress); err != nil {
		return err
	}
	before, err := r.awaitQuiet(ctx)
	if err != nil {
		return err
	}
	clientBefore, serverBefore, err := r.usages()
	if err != nil {
		return err
	}
	start := time.Now()
	rows, last, err := o.changes(ctx, r, src)
	if err != nil {
		return err
	}
	took := time.Since(start)
	after, err := r.awaitQuiet(ctx)
	if err != nil {
		return err
	}
	client, server, err := r.usages()
	if err != nil {
		return err
	}

	events := sentEvents(before, after)
	messages := 0.0
	for _, n := range events {
		messages += n
	}
	// The first change leaves at once, the last one at the end of its window.
	limit := o.Duration.Seconds()/window.Seconds() + 2
	report.add(groupHot, "changes", "", float64(o.Changes), nil)
	report.add(groupHot, "time of the changes until the last row", "s", took.Seconds(), nil)
	report.add(groupHot, "messages sent by the client", "", messages, atMost(limit))
	report.add(groupHot, "states stored", "", float64(len(rows)), nil)
	stored, newest := 0.0, src.newest()
	if last.resourceVersion == newest {
		stored = 1
		if at, ok := src.changed(last); ok {
			report.add(groupHot, "from the last change to its row", "ms", milliseconds(max(0, rows[last].Sub(at))), nil)
		}
	}
	report.add(groupHot, "last state is stored (1: yes)", "", stored, atLeast(1))
	changes := float64(o.Changes)
	report.add(groupHot, "CPU time per change, client", "µs", float64((client.CPU-clientBefore.CPU).Microseconds())/changes, nil)
	report.add(groupHot, "CPU time per change, backend", "µs", float64((server.CPU-serverBefore.CPU).Microseconds())/changes, nil)
	for _, event := range objectEvents {
		if events[event] > 0 {
			report.add(groupHotOut, event, "", events[event], nil)
		}
	}
	return nil
}

// sentEvents is how many messages about objects the client has sent between two
// looks at its metrics.
func sentEvents(before, after metrics) map[string]float64 {
	was := before.byLabel("synchronizer_link_frames_total", "event", "direction", "sent")
	is := after.byLabel("synchronizer_link_frames_total", "event", "direction", "sent")
	events := map[string]float64{}
	for _, event := range objectEvents {
		if n := is[event] - was[event]; n > 0 {
			events[event] = n
		}
	}
	return events
}

// changes makes the changes and watches the object's row until it has the last
// state, or has not had it for drainTimeout. Last is the state that the row had
// last.
func (o *HotObjectOptions) changes(ctx context.Context, r *rig, src source) (rows seen, last version, err error) {
	c, err := openCommits(ctx, filepath.Join(r.dataDir(), "synchronizer.db"))
	if err != nil {
		return nil, version{}, err
	}
	defer func() { _ = c.db.Close() }()
	o.Progress.Start("changing", 0)
	defer o.Progress.Stop()

	g, ctx := errgroup.WithContext(ctx)
	reading, stop := context.WithCancel(ctx)
	var newest atomic.Pointer[string] // resourceVersion of the row
	g.Go(func() error {
		return c.follow(reading, func(int) {
			resourceVersion := c.last.resourceVersion
			newest.Store(&resourceVersion)
		})
	})
	g.Go(func() error {
		defer stop()
		if err := src.change(ctx, o.Changes, float64(o.Changes)/o.Duration.Seconds()); err != nil {
			return err
		}
		since := time.Now()
		return await(ctx, r.client, 2*drainTimeout, pollInterval, "the last state to be stored", func() (bool, error) {
			row := newest.Load()
			return row != nil && *row == src.newest() || time.Since(since) > drainTimeout, r.backend.ended()
		})
	})
	if err := g.Wait(); err != nil {
		return nil, version{}, err
	}
	return c.seen, c.last, nil
}
