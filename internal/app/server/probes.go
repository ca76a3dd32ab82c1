// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"sync/atomic"
)

// probes is the health port from the moment on at which it is taken. A broker that is
// away is waited for, and a schema is changed, before there is anything to run; to a
// probe that nobody answers the process would seem dead, and it would be killed.
// The zero value is not served.
type probes struct {
	waits  atomic.Pointer[string] // what is being opened; nil: all is open
	cancel context.CancelFunc
	done   chan struct{} // closed when it is not served any more, because of err
	err    error
}

func (p *probes) opens(what string) { p.waits.Store(&what) }

// opening is why a process is not ready of which not all is open yet. While it is an
// error, nothing else of the backend may be asked.
func (p *probes) opening() error {
	if what := p.waits.Load(); what != nil {
		return fmt.Errorf("starting: opening the %s", *what)
	}
	return nil
}

// end stops the port and waits for it. It may be called again.
func (p *probes) end() {
	if p.done != nil {
		p.cancel()
		<-p.done
	}
}

// answerProbes serves the health port until Close. The backend is not ready before
// opened is called.
func (b *Backend) answerProbes() (opened func()) {
	p := &b.probes
	p.opens("files")
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		p.err = b.process.Health(ctx, b.health, b.Ready)
	}()
	return func() { p.waits.Store(nil) }
}

// serveProbes is the health port as a part of Run.
func (b *Backend) serveProbes(ctx context.Context) error {
	p := &b.probes
	if p.done == nil {
		return b.process.Health(ctx, b.health, b.Ready)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.end()
	}
	return p.err
}
