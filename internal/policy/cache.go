// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// maxCached bounds what is remembered: kinds, namespaces of a kind, and graphs of a
// kind. What comes on top is worked out anew each time.
const maxCached = 4096

// kindCache remembers what of the rules is about a kind. Reading takes no lock:
// there are few kinds, and they are known soon.
type kindCache struct {
	known atomic.Pointer[map[groupResource]*kindRules]
	mu    sync.Mutex // of those who add
}

// kindRules is what of the rules is about one kind.
type kindRules struct {
	rules []*compiled
	// everywhere is the graph if the namespace does not matter, else nil.
	everywhere *rule

	mu         sync.RWMutex
	namespaces map[string]*rule
	graphs     map[string]*rule // by which of rules hold, one byte each
}

// rulesFor gives the graph for the objects of a kind and namespace.
func (t *Transform) rulesFor(k groupResource, namespace string) *rule {
	var kind *kindRules
	if known := t.kinds.known.Load(); known != nil {
		kind = (*known)[k]
	}
	if kind == nil {
		kind = t.addKind(k)
	}
	if kind.everywhere != nil {
		return kind.everywhere
	}
	kind.mu.RLock()
	r := kind.namespaces[namespace]
	kind.mu.RUnlock()
	if r == nil {
		r = t.addNamespace(k, kind, namespace)
	}
	return r
}

func (t *Transform) addKind(k groupResource) *kindRules {
	kind := &kindRules{namespaces: map[string]*rule{}, graphs: map[string]*rule{}}
	byNamespace := false
	for _, c := range t.rules {
		if c.matchesKind(k) {
			kind.rules = append(kind.rules, c)
			byNamespace = byNamespace || len(c.namespaces) > 0
		}
	}
	if !byNamespace {
		kind.everywhere = t.graph(k, kind.rules)
	}
	t.kinds.mu.Lock()
	defer t.kinds.mu.Unlock()
	next := map[groupResource]*kindRules{}
	if known := t.kinds.known.Load(); known != nil {
		if other := (*known)[k]; other != nil {
			return other
		}
		if len(*known) >= maxCached {
			return kind
		}
		next = maps.Clone(*known)
	}
	next[k] = kind
	t.kinds.known.Store(&next)
	return kind
}

func (t *Transform) addNamespace(k groupResource, kind *kindRules, namespace string) *rule {
	holds := make([]byte, len(kind.rules))
	var rules []*compiled
	for i, c := range kind.rules {
		if c.matchesNamespace(namespace) {
			holds[i] = 1
			rules = append(rules, c)
		}
	}
	kind.mu.Lock()
	defer kind.mu.Unlock()
	r := kind.graphs[string(holds)]
	if r == nil {
		r = t.graph(k, slices.Clip(rules))
		if len(kind.graphs) < maxCached {
			kind.graphs[string(holds)] = r
		}
	}
	if len(kind.namespaces) < maxCached {
		kind.namespaces[namespace] = r
	}
	return r
}
