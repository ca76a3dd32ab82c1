// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"synchronizer"
)

// registry knows the connections of each cluster, the newest last. The newest wins:
// records go to it, and older ones are closed. They stay here until they have given
// back what they did not write.
type registry struct {
	mu       sync.Mutex
	clusters map[synchronizer.ClusterID]*presence
}

// presence is one cluster with a connection, or with one that is being made.
type presence struct {
	// turn is held from before a connection is introduced to the backend until it
	// is added: so the newest here is the one with the highest generation.
	turn     chan struct{}
	taking   int // who holds turn or waits for it
	open     []*connection
	newest   *connection // of open; nil if that has ended
	replaced []time.Time
}

// Replacements within replaceWindow above maxReplacements mean that two clients
// claim to be the same cluster.
const (
	replaceWindow   = 5 * time.Minute
	maxReplacements = 3
	// mostRemembered bounds the replacements that are kept of one cluster.
	mostRemembered = 100
)

func newRegistry() *registry {
	return &registry{clusters: map[synchronizer.ClusterID]*presence{}}
}

// enter waits until nobody else introduces a connection of the cluster; leave
// must be called when that is done.
func (r *registry) enter(ctx context.Context, id synchronizer.ClusterID) (leave func(), err error) {
	r.mu.Lock()
	p := r.clusters[id]
	if p == nil {
		p = &presence{turn: make(chan struct{}, 1)}
		r.clusters[id] = p
	}
	p.taking++
	r.mu.Unlock()

	done := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		p.taking--
		r.forget(id, p)
	}
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn; done() }, nil
	case <-ctx.Done():
		done()
		return nil, ctx.Err()
	}
}

// forget drops what nobody needs; r.mu is held.
func (r *registry) forget(id synchronizer.ClusterID, p *presence) {
	if p.taking == 0 && len(p.open) == 0 {
		delete(r.clusters, id)
	}
}

// add makes c the newest connection of its cluster; the caller has entered. What
// the one before wanted to ask for is cancelled. Older are the connections that c
// replaces, which must be closed; replacements is how often that has happened to the
// cluster within the window.
func (r *registry) add(c *connection, now time.Time) (older []*connection, replacements int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.clusters[c.id()]
	if p.newest != nil {
		p.replaced = slices.DeleteFunc(p.replaced, func(t time.Time) bool { return now.Sub(t) >= replaceWindow })
		p.replaced = append(p.replaced, now)
		p.replaced = p.replaced[max(0, len(p.replaced)-mostRemembered):]
		p.newest.request.cancel()
	}
	older = slices.Clone(p.open)
	p.open = append(p.open, c)
	p.newest = c
	return older, len(p.replaced)
}

// remove forgets c. It reports whether c was the newest of its cluster; the end of
// an older one changes nothing.
func (r *registry) remove(c *connection) (newest bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.clusters[c.id()]
	if p == nil {
		return false
	}
	p.open = slices.DeleteFunc(p.open, func(o *connection) bool { return o == c })
	if newest = p.newest == c; newest {
		p.newest, p.replaced = nil, nil
	}
	r.forget(c.id(), p)
	return newest
}

// find gives the newest connection of a cluster, or nil.
func (r *registry) find(id synchronizer.ClusterID) *connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.clusters[id]; p != nil {
		return p.newest
	}
	return nil
}

// count is the number of clusters with a connection.
func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, p := range r.clusters {
		if p.newest != nil {
			n++
		}
	}
	return n
}
