// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"sync"
	"time"

	"synchronizer"
)

// registry knows which connection is the newest of each cluster. Older ones stay
// connected and may publish, as in the field; records go to the newest.
type registry struct {
	mu       sync.Mutex
	newest   map[synchronizer.ClusterID]*connection
	replaced map[synchronizer.ClusterID][]time.Time
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
	return &registry{
		newest:   map[synchronizer.ClusterID]*connection{},
		replaced: map[synchronizer.ClusterID][]time.Time{},
	}
}

// add makes c the newest connection of its cluster. It reports how often that
// cluster's connection was replaced within the window, while still connected.
func (r *registry) add(c *connection, now time.Time) (replacements int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := c.id()
	if r.newest[id] != nil {
		recent := r.replaced[id][:0]
		for _, t := range r.replaced[id] {
			if now.Sub(t) < replaceWindow {
				recent = append(recent, t)
			}
		}
		recent = append(recent, now)
		r.replaced[id] = recent[max(0, len(recent)-mostRemembered):]
	}
	r.newest[id] = c
	return len(r.replaced[id])
}

// remove forgets c. It reports whether c was the newest of its cluster: the end
// of an older one changes nothing.
func (r *registry) remove(c *connection) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := c.id()
	if r.newest[id] != c {
		return false
	}
	delete(r.newest, id)
	delete(r.replaced, id)
	return true
}

// find gives the newest connection of a cluster, or nil.
func (r *registry) find(id synchronizer.ClusterID) *connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest[id]
}

// clusters counts clusters with a connection.
func (r *registry) clusters() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.newest)
}
