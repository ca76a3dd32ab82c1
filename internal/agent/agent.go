// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"synchronizer"
	"synchronizer/internal/baseline"
	"synchronizer/internal/dedup"
	"synchronizer/internal/filter"
	"synchronizer/internal/policy"
	"synchronizer/internal/telemetry/traceparent"
)

const (
	firstLists   = 2 // kinds in their first list at the same time
	clusterReads = 8 // GETs of all kinds at the same time
	flushTime    = 5 * time.Second
)

// Strategy is how changes of a kind are sent on link v1.
type Strategy string

// The strategies: whole objects, or merge patches against what was sent last
// where that is still known.
const (
	StrategyCopy  Strategy = "copy"
	StrategyPatch Strategy = "patch"
)

// Mode is what the objects of a kind are.
type Mode string

// The modes. An object has a state, and the newest one counts. An event is a
// report that is appended: every state that is seen goes whole and at once, and
// deletions are not reported. States that were missed while the link was down
// are lost, but for the last one.
const (
	ModeObject Mode = "object"
	ModeEvent  Mode = "event"
)

// KindConfig is one kind that is synchronized; with * for group, version or
// resource it means all that the cluster serves, see catalog.Expand.
type KindConfig struct {
	Kind     synchronizer.Kind
	Strategy Strategy
	Mode     Mode // empty: ModeObject
	// Hollow says that lists and watches give only metadata, as those of the
	// group spdx.softwarecomposition.kubescape.io: bodies are read one by one.
	Hollow bool
	// LabelSelector and FieldSelector have the syntax of the API server's query;
	// Namespaces, if there are any, are the only ones that are read. They are
	// applied by Options.Select.
	LabelSelector string
	FieldSelector string
	Namespaces    []string
}

// selecting tells whether an object can leave what is read and still exist.
func (c *KindConfig) selecting() bool { return c.LabelSelector != "" || c.FieldSelector != "" }

func (c *KindConfig) check() error {
	switch {
	case !c.Kind.Valid():
		return fmt.Errorf("%w: kind %v", synchronizer.ErrInvalid, c.Kind)
	case c.Strategy != StrategyCopy && c.Strategy != StrategyPatch:
		return fmt.Errorf("%w: strategy %q of kind %v", synchronizer.ErrInvalid, c.Strategy, c.Kind)
	case c.Mode != "" && c.Mode != ModeObject && c.Mode != ModeEvent:
		return fmt.Errorf("%w: mode %q of kind %v", synchronizer.ErrInvalid, c.Mode, c.Kind)
	}
	return nil
}

// Clock is what time it is; tests have their own.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives once d has passed, and a function that
	// frees what it needs.
	After(d time.Duration) (<-chan time.Time, func())
}

// Options are what an Agent is made of. Cluster, Dialer, Kinds, Policy and Drop
// are required.
type Options struct {
	Cluster synchronizer.Cluster
	Dialer  synchronizer.Dialer
	Kinds   []KindConfig
	Filter  *filter.Filter // nil: every object
	Policy  *policy.Transform
	Drop    synchronizer.DropFunc

	// Discovery tells which kinds there are, so that those that are not served
	// cost no requests and wildcards mean something; nil: every kind is asked for
	// until it is served, and there are no wildcards.
	Discovery Discovery

	// Applier writes into the cluster what the backend says; nil: that is refused.
	Applier Applier
	// Applied remembers what was written, so that a repeat is skipped; nil: nothing
	// is a repeat.
	Applied *dedup.Memory

	// Select gives the part of the cluster that a kind's selectors and namespaces
	// leave; nil: Cluster for every kind. Get of what it gives must answer for
	// objects outside the selectors too.
	Select func(KindConfig) synchronizer.Cluster

	// MaxObjectBytes is the largest object that is sent, after the policy; 0 = 64 MiB.
	MaxObjectBytes int
	// OfferBytes bounds the bodies that are kept because the backend may ask for
	// them, of all kinds together; 0 = 8 MiB.
	OfferBytes int
	// BaselineBytes bounds what is kept of sent objects for patches against them,
	// of all kinds together; 0 = 32 MiB.
	BaselineBytes int
	// CoalesceWindow is how long after a change of an object the next ones are
	// merged. It grows up to 5 s under load and for objects that go on changing.
	// 0 = 1 s.
	CoalesceWindow time.Duration
	// HollowRelist is the time between lists of hollow kinds, whose watches may
	// miss things; 0 = 5 min.
	HollowRelist time.Duration
	// FirstConnectTimeout ends Run if no link was had by then; 0 = 15 min.
	FirstConnectTimeout time.Duration

	Clock      Clock                 // nil: the system's
	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: none
}

func (o *Options) complete() error {
	switch {
	case o.Cluster == nil, o.Dialer == nil, o.Policy == nil, o.Drop == nil:
		return fmt.Errorf("%w: agent without cluster, dialer, policy or drop function", synchronizer.ErrInvalid)
	}
	if o.MaxObjectBytes <= 0 {
		o.MaxObjectBytes = 64 << 20
	}
	if o.OfferBytes <= 0 {
		o.OfferBytes = 8 << 20
	}
	if o.BaselineBytes <= 0 {
		o.BaselineBytes = baseline.DefaultLimit
	}
	if o.CoalesceWindow <= 0 {
		o.CoalesceWindow = time.Second
	}
	if o.HollowRelist <= 0 {
		o.HollowRelist = 5 * time.Minute
	}
	if o.FirstConnectTimeout <= 0 {
		o.FirstConnectTimeout = 15 * time.Minute
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Agent synchronizes one cluster. Make it with New, and call Run once.
type Agent struct {
	options   Options
	streams   map[synchronizer.Kind]*stream // those of running, and guarded by it
	running   *running
	metrics   *metrics
	pool      *pool
	baselines *baseline.Cache[slotKey]
	hub       hub
	reads     *semaphore.Weighted
	writer    *writer
	reports   *reports
	relaxer   *relaxer
	ready     atomic.Bool
}

// New checks the options. Its errors wrap synchronizer.ErrInvalid, or are the
// registerer's.
func New(options Options) (*Agent, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	a := &Agent{
		options: options,
		pool:    newPool(options.OfferBytes),
		hub:     hub{changed: make(chan struct{})},
		reads:   semaphore.NewWeighted(clusterReads),
	}
	a.running = newRunning(a)
	a.streams = a.running.streams
	if err := a.running.configure(); err != nil {
		return nil, err
	}
	var err error
	if a.baselines, err = baseline.New[slotKey](options.BaselineBytes); err != nil {
		return nil, err
	}
	if a.metrics, err = newMetrics(a, options.Registerer); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	a.writer = newWriter(a)
	a.reports = newReports(a)
	a.relaxer = newRelaxer(a)
	a.running.each(func(s *stream, _ *gate) { s.metrics = a.metrics.of(s.kind) })
	return a, nil
}

// Run synchronizes until ctx ends; then it sends what was accepted, closes the
// link with 1001 and returns nil. It returns an error only if no link can be had
// at the start: at once if the server refuses credentials or version, else after
// FirstConnectTimeout. Later, and whatever the API server does, it tries again
// for ever.
func (a *Agent) Run(ctx context.Context) error {
	d := newDialing(a)
	link, err := d.first(ctx)
	if err != nil || link == nil {
		return err
	}
	a.ready.Store(true)

	// Links live a little longer than ctx, so that the streams can flush.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var streams sync.WaitGroup
	a.running.run(ctx, life, &streams)
	a.writer.run(ctx, life, &streams)
	a.reports.run(ctx, life, &streams)
	a.relaxer.run(ctx, &streams)
	for link != nil {
		s := newSession(link, a.options.Clock.Now())
		a.metrics.connected.Set(1)
		a.hub.set(s) // before anything of it can be received
		var reader sync.WaitGroup
		reader.Go(func() {
			err := a.receive(life, s)
			s.end(a.options.Clock.Now(), err)
		})
		a.options.Logger.Info("connected")
		select {
		case <-ctx.Done():
			a.flush(&streams, end)
		case <-s.down:
			a.options.Logger.Warn("connection lost", "error", s.err)
		}
		if err := link.Close(closeGoingAway, "going away"); err != nil && ctx.Err() != nil {
			a.options.Logger.Debug("closing the link", "error", err)
		}
		s.end(a.options.Clock.Now(), synchronizer.ErrClosed)
		reader.Wait()
		a.hub.set(nil)
		a.metrics.connected.Set(0)
		d.ended(s, a.options.Clock.Now())
		link = d.again(ctx)
	}
	streams.Wait()
	return nil
}

// flush waits until the streams have sent what they hold, but not for ever.
func (a *Agent) flush(streams *sync.WaitGroup, end context.CancelFunc) {
	done := make(chan struct{})
	go func() {
		streams.Wait()
		close(done)
	}()
	timeout, stop := a.options.Clock.After(flushTime)
	defer stop()
	select {
	case <-done:
	case <-timeout:
		end() // closes the link that a Send is stuck in
		<-done
	}
}

// Ready reports whether a link was had once.
func (a *Agent) Ready() bool { return a.ready.Load() }

// receive hands what the backend says to the owner of the kind.
func (a *Agent) receive(ctx context.Context, s *session) error {
	for {
		msg, err := s.link.Receive(ctx)
		if err != nil {
			return err
		}
		a.dispatch(s, &msg)
	}
}

func (a *Agent) drop(reason synchronizer.DropReason, msg *synchronizer.Message) {
	what := msg.Event.String()
	switch {
	case msg.Event.AboutObject():
		what += " " + msg.Kind.String() + " " + msg.Namespace + "/" + msg.Name
	case msg.BatchType != "":
		what += " " + msg.BatchType
	}
	a.options.Drop(reason, traceparent.Named(what, msg.TraceParent))
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) After(d time.Duration) (<-chan time.Time, func()) {
	timer := time.NewTimer(d)
	return timer.C, func() { timer.Stop() }
}

// spread varies a delay by half of it, so that many clients do not come back at
// the same time.
func spread(d time.Duration) time.Duration {
	return d/2 + rand.N(d+1)
}

// isFinal tells whether an error of the first connect is worth no other try.
func isFinal(err error) bool {
	return errors.Is(err, synchronizer.ErrUnauthorized) || errors.Is(err, synchronizer.ErrUnsupportedVersion)
}
