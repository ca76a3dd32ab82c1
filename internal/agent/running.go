// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"synchronizer"
	"synchronizer/internal/catalog"
)

// running are the kinds that are synchronized: a stream each, and the gate
// through which it sees the cluster. Those that a wildcard means come and go.
type running struct {
	agent *Agent
	kinds *kinds              // nil without discovery
	first *semaphore.Weighted // first lists
	inner func(KindConfig) synchronizer.Cluster
	whole synchronizer.Cluster

	mu      sync.RWMutex
	streams map[synchronizer.Kind]*stream
	gates   map[synchronizer.Kind]*gate
	ends    map[synchronizer.Kind]func() // of those that a wildcard means

	// Of Run.
	ctx, life context.Context
	all       *sync.WaitGroup
}

func newRunning(a *Agent) *running {
	r := &running{
		agent: a, first: semaphore.NewWeighted(firstLists), inner: a.options.Select, whole: a.options.Cluster,
		streams: map[synchronizer.Kind]*stream{}, gates: map[synchronizer.Kind]*gate{}, ends: map[synchronizer.Kind]func(){},
	}
	if r.inner == nil {
		r.inner = func(KindConfig) synchronizer.Cluster { return r.whole }
	}
	a.options.Cluster, a.options.Select = gatedCluster{r}, nil
	if a.options.Discovery != nil {
		r.kinds = newKinds(a)
	}
	return r
}

// configure makes the kinds that are named; those that wildcards mean are found
// later.
func (r *running) configure() error {
	configured := map[synchronizer.Kind]bool{}
	for _, c := range r.agent.options.Kinds {
		if err := c.check(); err != nil {
			return err
		}
		if configured[c.Kind] {
			return fmt.Errorf("%w: kind %v is configured twice", synchronizer.ErrInvalid, c.Kind)
		}
		configured[c.Kind] = true
		switch pattern := catalog.IsPattern(c.Kind); {
		case !pattern:
			r.add(c)
		case r.kinds == nil:
			return fmt.Errorf("%w: kind %v has a wildcard, and nothing tells what kinds there are", synchronizer.ErrInvalid, c.Kind)
		}
	}
	return nil
}

// add makes stream and gate of a kind.
func (r *running) add(c KindConfig) (*stream, *gate) {
	g := newGate(r.agent, c.Kind, r.inner(c), r.first)
	if r.kinds != nil {
		g.lost, g.presence = r.kinds.tellLost, presencePending
	}
	r.mu.Lock()
	r.gates[c.Kind] = g
	r.mu.Unlock()
	s := newStream(r.agent, c)
	r.mu.Lock()
	r.streams[c.Kind] = s
	r.mu.Unlock()
	return s, g
}

// run starts everything; all ends when ctx has ended. Streams send until life ends.
func (r *running) run(ctx, life context.Context, all *sync.WaitGroup) {
	r.ctx, r.life, r.all = ctx, life, all
	for _, s := range r.streams {
		all.Go(func() { s.run(ctx, life) })
	}
	if r.kinds != nil {
		all.Go(func() { r.kinds.run(ctx) })
	}
}

// startWild starts a kind while Run runs.
func (r *running) startWild(c KindConfig) *gate {
	s, g := r.add(c)
	g.wild = true
	s.metrics = r.agent.metrics.of(c.Kind)
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	r.all.Go(func() {
		defer close(done)
		s.run(ctx, r.life)
	})
	r.mu.Lock()
	r.ends[c.Kind] = func() { cancel(); <-done }
	r.mu.Unlock()
	return g
}

// endWild ends one.
func (r *running) endWild(kind synchronizer.Kind) {
	r.mu.Lock()
	end := r.ends[kind]
	delete(r.ends, kind)
	delete(r.streams, kind)
	delete(r.gates, kind)
	r.mu.Unlock()
	if end != nil {
		end()
	}
}

func (r *running) stream(kind synchronizer.Kind) *stream {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.streams[kind]
}

func (r *running) gate(kind synchronizer.Kind) *gate {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.gates[kind]
}

// each calls do for every kind, in no order.
func (r *running) each(do func(*stream, *gate)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for kind, s := range r.streams {
		do(s, r.gates[kind])
	}
}

func (r *running) allGates() []*gate {
	var all []*gate
	r.each(func(_ *stream, g *gate) { all = append(all, g) })
	return all
}

// gatedCluster leads each kind through its gate.
type gatedCluster struct{ running *running }

var _ synchronizer.Cluster = gatedCluster{}

func (c gatedCluster) of(kind synchronizer.Kind) synchronizer.Cluster {
	if g := c.running.gate(kind); g != nil {
		return g
	}
	return c.running.whole
}

// List implements synchronizer.Cluster.
func (c gatedCluster) List(ctx context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	return c.of(kind).List(ctx, kind, each)
}

// Watch implements synchronizer.Cluster.
func (c gatedCluster) Watch(ctx context.Context, kind synchronizer.Kind, version string, each func(synchronizer.WatchEvent) error) error {
	return c.of(kind).Watch(ctx, kind, version, each)
}

// Get implements synchronizer.Cluster.
func (c gatedCluster) Get(ctx context.Context, kind synchronizer.Kind, namespace, name string) (synchronizer.Object, error) {
	return c.of(kind).Get(ctx, kind, namespace, name)
}
