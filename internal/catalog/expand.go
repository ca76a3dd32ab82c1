// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"slices"

	"synchronizer"
)

// Any is the wildcard for a group, a version or a resource.
const Any = "*"

// IsPattern tells whether a configured kind has wildcards.
func IsPattern(kind synchronizer.Kind) bool { return stars(kind) > 0 }

func stars(kind synchronizer.Kind) (n int) {
	for _, part := range [...]string{kind.Group, kind.Version, kind.Resource} {
		if part == Any {
			n++
		}
	}
	return n
}

// unnamed are the resources that a wildcard never means: they hold credentials,
// or change so often that somebody has to want them.
var unnamed = map[GroupResource]bool{
	{"", "secrets"}:                        true,
	{"", "events"}:                         true,
	{"events.k8s.io", "events"}:            true,
	{"coordination.k8s.io", "leases"}:      true,
	{"", "endpoints"}:                      true,
	{"discovery.k8s.io", "endpointslices"}: true,
}

// GroupResource is a kind in all its versions: the same objects.
type GroupResource struct{ Group, Resource string }

// Of is the kind without its version.
func Of(kind synchronizer.Kind) GroupResource { return GroupResource{kind.Group, kind.Resource} }

// Expand gives the kinds that configured ones mean, each with the index of the
// entry that it comes from. An entry without a wildcard is always there, served
// or not. A wildcard means kinds that can be listed and watched; for the version
// it means the preferred one that has the resource, or the one in use as long as
// it is served. An entry with fewer wildcards wins over one with more, then the
// earlier one. Secrets, events, leases, endpoints and endpoint slices are meant
// only where the resource is named.
func Expand(entries []synchronizer.Kind, c *Catalog, inUse func(synchronizer.Kind) bool) map[synchronizer.Kind]int {
	kinds := map[synchronizer.Kind]int{}
	taken := map[GroupResource]bool{}
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(stars(entries[x]), stars(entries[y])) })
	for _, i := range order {
		entry := entries[i]
		var found []synchronizer.Kind
		if IsPattern(entry) {
			found = c.match(entry, inUse)
		} else {
			found = []synchronizer.Kind{entry}
		}
		for _, kind := range found {
			if _, double := kinds[kind]; !double && (entry.Version != Any || !taken[Of(kind)]) {
				kinds[kind] = i
			}
		}
		for _, kind := range found {
			taken[Of(kind)] = true
		}
	}
	return kinds
}

// match gives the kinds that a pattern means by itself.
func (c *Catalog) match(pattern synchronizer.Kind, inUse func(synchronizer.Kind) bool) []synchronizer.Kind {
	var kinds []synchronizer.Kind
	for i := range c.groups {
		g := &c.groups[i]
		if pattern.Group != Any && pattern.Group != g.Name {
			continue
		}
		seen := map[string]int{} // place in kinds
		for j := range g.Versions {
			v := &g.Versions[j]
			if pattern.Version != Any && pattern.Version != v.Name {
				continue
			}
			for k := range v.Resources {
				r := &v.Resources[k]
				kind := synchronizer.Kind{Group: g.Name, Version: v.Name, Resource: r.Name}
				if !r.Watchable || !names(pattern.Resource, kind) {
					continue
				}
				if at, again := seen[r.Name]; !again {
					seen[r.Name] = len(kinds)
					kinds = append(kinds, kind)
				} else if inUse(kind) && !inUse(kinds[at]) {
					kinds[at] = kind
				}
			}
		}
	}
	return kinds
}

func names(pattern string, kind synchronizer.Kind) bool {
	if pattern == Any {
		return !unnamed[Of(kind)]
	}
	return pattern == kind.Resource
}
