// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"synchronizer"
)

// registry knows the connections of each cluster, the newest last. Older ones
// stay connected and may publish, as in the field; records go to the newest.
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
// the one before wanted to ask for is cancelled. It reports how often that
// cluster's connection was replaced within the window, while still connected.
func (r *registry) add(c *connection, now time.Time) (replacements int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.clusters[c.id()]
	if len(p.open) > 0 {
		p.replaced = slices.DeleteFunc(p.replaced, func(t time.Time) bool { return now.Sub(t) >= replaceWindow })
		p.replaced = append(p.replaced, now)
		p.replaced = p.replaced[max(0, len(p.replaced)-mostRemembered):]
		p.open[len(p.open)-1].request.cancel()
	}
	p.open = append(p.open, c)
	return len(p.replaced)
}

// remove forgets c. It reports whether c was the newest of its cluster; the end
// of an older one changes nothing. Survivors are older connections that are still
// open then: what they say is older than what c has said, and would be ignored,
// so they must connect again.
func (r *registry) remove(c *connection) (newest bool, survivors []*connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.clusters[c.id()]
	if p == nil {
		return false, nil
	}
	at := slices.Index(p.open, c)
	if at < 0 {
		return false, nil
	}
	newest = at == len(p.open)-1
	p.open = slices.Delete(p.open, at, at+1)
	if newest {
		survivors = slices.Clone(p.open)
		p.replaced = nil
	}
	r.forget(c.id(), p)
	return newest, survivors
}

// find gives the newest connection of a cluster, or nil.
func (r *registry) find(id synchronizer.ClusterID) *connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.clusters[id]; p != nil && len(p.open) > 0 {
		return p.open[len(p.open)-1]
	}
	return nil
}

// count is the number of clusters with a connection.
func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, p := range r.clusters {
		if len(p.open) > 0 {
			n++
		}
	}
	return n
}
