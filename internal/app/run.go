// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"synchronizer/internal/telemetry"
)

// part is something that runs until its context ends.
type part = func(context.Context) error

// errStopping is why a process that has been told to end is not ready.
var errStopping = errors.New("shutting down")

// Stopping is an error from the moment on at which the process is to end: by a
// signal, or because a part of it has failed.
func (p *Process) Stopping() error {
	if p.stopping.Load() {
		return errStopping
	}
	return nil
}

// Run runs parts until ctx ends or one of them fails, then release. Ports answer
// until all of that is over, so that probes hear at once that a process is not ready,
// however long it takes to end. Release may be nil.
func (p *Process) Run(ctx context.Context, parts, ports []part, release func() error) error {
	g, ctx := errgroup.WithContext(ctx)
	around, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var answering errgroup.Group
	failed := make(chan error, len(ports))
	for _, port := range ports {
		answering.Go(func() error {
			err := port(around)
			if err != nil {
				failed <- err
			}
			return err
		})
	}
	g.Go(func() error {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	g.Go(func() error {
		<-ctx.Done()
		p.stopping.Store(true)
		return nil
	})
	for _, run := range parts {
		g.Go(func() error { return run(ctx) })
	}
	err := g.Wait()
	if release != nil {
		err = errors.Join(err, release())
	}
	stop()
	if late := answering.Wait(); err == nil {
		err = late
	}
	return err
}

// Metrics serves /metrics alone until ctx ends, on a port of its own.
func (p *Process) Metrics(ctx context.Context, l net.Listener) error {
	return telemetry.Serve(ctx, l, telemetry.MetricsHandler(p.Registry), time.Second)
}
