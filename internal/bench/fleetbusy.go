// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"synchronizer/internal/bench/fleetclient"
)

var (
	relayedP99Goal = below(100)
	silentGoal     = below(15)
)

// messages measures how long messages take, each way by itself.
func (o *FleetOptions) messages(ctx context.Context, report *Report) (err error) {
	clients := max(1, o.Clients/busyShare)
	r, err := o.startFleet(ctx, "busy", false, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	f, err := o.connectAll(ctx, r, clients)
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.send(ctx, 1, recordBytes, busyRate); err != nil { // warms up
		return err
	}
	each := max(1, int(o.Seconds*busyRate))
	up, down := clients, int64(0)
	for range o.Runs {
		if _, err := r.counts(ctx, up); err != nil {
			return err
		}
		if err := r.ask(ctx, latenciesPath, nil, nil, &fleetLatencies{}); err != nil {
			return err
		}
		o.Progress.Start("messages", 0)
		if err := r.measureUp(ctx, report, f, each, &up); err != nil {
			return err
		}
		o.Progress.Start("commands", 0)
		if err := r.measureDown(ctx, report, f, each, &down); err != nil {
			return err
		}
		o.Progress.Stop()
	}
	return f.whole()
}

// measureUp lets each client send so many messages; sent is how many all have
// sent.
func (r *fleetRig) measureUp(ctx context.Context, report *Report, f *fleet, each int, sent *int) error {
	before, err := r.counts(ctx, 0)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := f.send(ctx, each, recordBytes, busyRate); err != nil {
		return err
	}
	n := each * len(f.conns)
	*sent += n
	after, err := r.counts(ctx, *sent)
	if err != nil {
		return err
	}
	took := time.Since(start)
	var l fleetLatencies
	if err := r.ask(ctx, latenciesPath, nil, nil, &l); err != nil {
		return err
	}
	if l.Messages != n {
		return fmt.Errorf("%d messages came out of the queue where %d were sent", l.Messages, n)
	}
	addLatencies(report, groupUp, len(f.conns), n, took, after.CPU-before.CPU, l)
	return nil
}

func (r *fleetRig) measureDown(ctx context.Context, report *Report, f *fleet, each int, sent *int64) error {
	before, err := r.counts(ctx, 0)
	if err != nil {
		return err
	}
	f.takeLatencies()
	start := time.Now()
	if err := r.command(ctx, fleetCommands{Clients: len(f.conns), Rounds: each, Bytes: recordBytes, Rate: busyRate}); err != nil {
		return err
	}
	n := each * len(f.conns)
	*sent += int64(n)
	if err := f.awaitReceived(ctx, *sent); err != nil {
		return err
	}
	took := time.Since(start)
	after, err := r.counts(ctx, 0)
	if err != nil {
		return err
	}
	addLatencies(report, groupDown, len(f.conns), n, took, after.CPU-before.CPU, f.takeLatencies())
	return nil
}

func addLatencies(report *Report, group string, clients, n int, took, cpu time.Duration, l fleetLatencies) {
	report.add(group, "clients", "", float64(clients), nil)
	report.add(group, "messages per second", "/s", float64(n)/took.Seconds(), nil)
	report.add(group, "p50", "ms", milliseconds(l.P50), nil)
	report.add(group, "p99", "ms", milliseconds(l.P99), relayedP99Goal)
	report.add(group, "greatest", "ms", milliseconds(l.Max), nil)
	report.add(group, "CPU time per message, server's process", "µs", float64(cpu.Microseconds())/float64(n), nil)
}

const (
	silentBuffer = 256 << 10 // of its kernel, in bytes
	silentUp     = 400       // messages of each of the others in a run
	silentDown   = 400       // commands for each of the others, and so many for each for the special one
)

// silent compares what the others get and say beside a client that reads nothing
// with what they do beside one that reads, in pairs.
func (o *FleetOptions) silent(ctx context.Context, report *Report) (err error) {
	r, err := o.startFleet(ctx, "silent", false, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	others := min(silentOthers, o.Clients)
	s := &silentRun{rig: r, scale: min(1, o.Seconds/FleetSeconds)}
	if s.others, err = o.connectAll(ctx, r, others); err != nil {
		return err
	}
	defer s.others.close()
	o.Progress.Start("pairs", 2*o.Runs)
	defer o.Progress.Stop()
	if _, _, err := s.measure(ctx, true); err != nil { // warms up
		return err
	}
	for run := range o.Runs {
		var down, up [2]float64 // with one that reads, with one that does not
		for turn := range 2 {
			which := (run + turn) % 2
			if down[which], up[which], err = s.measure(ctx, which == 0); err != nil {
				return err
			}
			o.Progress.Add(1)
		}
		report.add(groupSilent, "commands per second that the others read, beside one that reads", "/s", down[0], nil)
		report.add(groupSilent, "commands per second that the others read, beside one that does not", "/s", down[1], nil)
		report.add(groupSilent, "what it costs them", "%", 100*(1-down[1]/down[0]), silentGoal)
		report.add(groupSilent, "messages per second of the others, beside one that reads", "/s", up[0], nil)
		report.add(groupSilent, "messages per second of the others, beside one that does not", "/s", up[1], nil)
		report.add(groupSilent, "what it costs their messages", "%", 100*(1-up[1]/up[0]), silentGoal)
	}
	return s.others.whole()
}

// silentRun is the server of all pairs.
type silentRun struct {
	rig    *fleetRig
	others *fleet
	scale  float64
	runs   int
	sent   int // messages of the others
}

// measure gives what the others read and what came of them, per second.
func (s *silentRun) measure(ctx context.Context, reads bool) (down, up float64, err error) {
	number := MostFleet + s.runs // a new one in every run
	s.runs++
	special, err := s.special(ctx, number, reads)
	if err != nil {
		return 0, 0, err
	}
	defer special.close()

	n := len(s.others.conns)
	rounds := max(1, int(silentDown*s.scale))
	read, start := s.others.received.Load(), time.Now()
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error {
		return s.rig.command(running, fleetCommands{Clients: n, Rounds: rounds, Bytes: recordBytes, Special: n, SpecialClient: number})
	})
	g.Go(func() error { return s.others.awaitReceived(running, read+int64(n*rounds)) })
	if err := g.Wait(); err != nil {
		return 0, 0, err
	}
	down = float64(n*rounds) / time.Since(start).Seconds()
	if reads {
		if err := special.awaitReceived(ctx, int64(n*rounds)); err != nil {
			return 0, 0, fmt.Errorf("the client that reads: %w", err)
		}
	}

	each := max(1, int(silentUp*s.scale))
	s.sent += each * n
	start = time.Now()
	g, running = errgroup.WithContext(ctx)
	g.Go(func() error {
		return s.rig.command(running, fleetCommands{Rounds: each * n / 4, Bytes: recordBytes, Special: 1, SpecialClient: number})
	})
	g.Go(func() error {
		if err := s.others.send(running, each, recordBytes, 0); err != nil {
			return err
		}
		_, err := s.rig.counts(running, s.sent)
		up = float64(each*n) / time.Since(start).Seconds()
		return err
	})
	return down, up, g.Wait()
}

// special connects one client. One that does not read has a small buffer.
func (s *silentRun) special(ctx context.Context, number int, reads bool) (f *fleet, err error) {
	if reads {
		f, err = connectFleet(ctx, s.rig.addresses.Clients, number, 1, nil)
	} else {
		var c *fleetclient.Conn
		c, err = dialOne(ctx, s.rig.addresses.Clients, number, silentBuffer)
		f = &fleet{conns: []*fleetclient.Conn{c}}
	}
	if err == nil {
		err = s.rig.letIn(ctx, 1)
	}
	return f, err
}
