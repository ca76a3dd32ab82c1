// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	connectGoal = atLeast(1500)
	idleRSSGoal = below(256)
	idleCPUGoal = below(5)
)

// connect measures how fast a server without ingester lets all clients in.
func (o *FleetOptions) connect(ctx context.Context, report *Report, run int) (err error) {
	r, err := o.startFleet(ctx, fmt.Sprintf("connect-%d", run), false, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	before, err := r.backend.usage()
	if err != nil {
		return err
	}
	start := time.Now()
	f, err := o.connectAll(ctx, r, o.Clients)
	if err != nil {
		return err
	}
	took := time.Since(start)
	defer f.close()
	after, err := r.backend.usage()
	if err != nil {
		return err
	}
	report.add(groupConnect, "clients per second, until the queue has given what is said of each", "/s", float64(o.Clients)/took.Seconds(), connectGoal)
	report.add(groupConnect, "CPU time of the server per client", "µs", float64((after.CPU-before.CPU).Microseconds())/float64(o.Clients), nil)
	return f.whole()
}

// connectAll connects n clients and waits until the consumer has read what the
// server says of them, who are its first ones.
func (o *FleetOptions) connectAll(ctx context.Context, r *fleetRig, n int) (*fleet, error) {
	o.Progress.Start("connecting", n)
	defer o.Progress.Stop()
	f, err := connectFleet(ctx, r.addresses.Clients, 0, n, o.Progress)
	if err != nil {
		return nil, fmt.Errorf("%w; the end of the server's log:\n%s", err, r.backend.tail())
	}
	if err := r.letIn(ctx, n); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// idle watches clients that only say Ping.
func (o *FleetOptions) idle(ctx context.Context, report *Report) (err error) {
	r, err := o.startFleet(ctx, "idle", o.Ingester, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	alone, err := r.backend.usage()
	if err != nil {
		return err
	}
	empty, err := r.memory(ctx)
	if err != nil {
		return err
	}
	f, err := o.connectAll(ctx, r, o.Clients)
	if err != nil {
		return err
	}
	defer f.close()
	pinging, stop := context.WithCancel(ctx)
	defer stop()
	pinged := make(chan error, 1)
	go func() { pinged <- f.ping(pinging) }()
	defer func() {
		stop()
		err = errors.Join(err, <-pinged)
	}()

	o.Progress.Start("waiting", 0)
	defer o.Progress.Stop()
	if err := r.settled(ctx, min(settleIdle, o.Duration)); err != nil {
		return err
	}
	if err := r.nextPhase(ctx); err != nil {
		return err
	}
	before, err := r.backend.usage()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := wait(ctx, o.Duration); err != nil {
		return err
	}
	after, err := r.backend.usage()
	if err != nil {
		return err
	}
	took := time.Since(start)
	if err := f.whole(); err != nil {
		return fmt.Errorf("%w; the end of the server's log:\n%s", err, r.backend.tail())
	}
	held, err := r.memory(ctx) // a collection: after the others
	if err != nil {
		return err
	}
	each := func(bytes int64) float64 { return float64(bytes) / 1024 / float64(o.Clients) }
	report.add(groupIdlers, "RSS of the server", "MiB", float64(after.RSS)/mebibyte, idleRSSGoal)
	report.add(groupIdlers, "RSS of the server, greatest since it started", "MiB", float64(after.PeakRSS)/mebibyte, nil)
	report.add(groupIdlers, "RSS of the server before a client came", "MiB", float64(alone.RSS)/mebibyte, nil)
	report.add(groupIdlers, "RSS per client", "KiB", each(after.RSS-alone.RSS), nil)
	report.add(groupIdlers, "live heap per client", "KiB", each(held.Live-empty.Live), nil)
	report.add(groupIdlers, "stacks of goroutines per client", "KiB", each(held.Stacks-empty.Stacks), nil)
	report.add(groupIdlers, "goroutines per client", "", float64(held.Goroutines-empty.Goroutines)/float64(o.Clients), nil)
	report.add(groupIdlers, "CPU of the server, of one core", "%", 100*(after.CPU-before.CPU).Seconds()/took.Seconds(), idleCPUGoal)
	return nil
}

// settleIdle is the longest time for which a server may work on what connections
// have left, such as rows of an ingester; the least is a tenth of it.
const settleIdle = 30 * time.Second

// settled waits until the server's process has little to do.
func (r *fleetRig) settled(ctx context.Context, most time.Duration) error {
	last, err := r.backend.usage()
	if err != nil {
		return err
	}
	for start := time.Now(); time.Since(start) < most; {
		if err := wait(ctx, most/10); err != nil {
			return err
		}
		now, err := r.backend.usage()
		if err != nil {
			return err
		}
		if now.CPU-last.CPU < most/100 { // a tenth of a core
			return nil
		}
		last = now
	}
	return nil
}
