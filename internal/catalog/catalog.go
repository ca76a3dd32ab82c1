// SPDX-License-Identifier: Apache-2.0

// Package catalog holds what kinds an API server serves, and which of them a
// list of configured kinds with wildcards means. It does no I/O.
//
// An API server has groups, a group has versions in the order in which the API
// server prefers them, and a version has resources. Kinds come and go with
// custom resource definitions and aggregated API servers; while one of the
// latter is down its versions are unknown, which is not the same as empty.
package catalog

import (
	"reflect"
	"slices"

	"synchronizer"
)

// Resource is one kind of a version.
type Resource struct {
	Name       string // plural
	ObjectKind string // "Deployment"
	Namespaced bool
	Watchable  bool // has the verbs list and watch
}

// Version is one version of a group. Unknown says that the API server could not
// tell just now; Resources may then be those that were known before.
type Version struct {
	Name      string
	Unknown   bool
	Resources []Resource
}

// Group is an API group, its versions in order of preference. The core group's
// name is empty.
type Group struct {
	Name     string
	Versions []Version
}

// Presence says whether a kind is served.
type Presence uint8

// The presences.
const (
	Unknown Presence = iota
	Served
	NotServed
)

// Catalog is what is known of an API server. It is not for concurrent use. The
// zero Catalog is empty: nothing is served.
type Catalog struct {
	groups []Group // sorted by name
}

// Replace takes over what the API server said of all its groups, and reports
// whether that is news.
func (c *Catalog) Replace(groups []Group) bool {
	next := make([]Group, 0, len(groups))
	for _, g := range groups {
		next = append(next, c.merged(g))
	}
	slices.SortFunc(next, func(x, y Group) int { return compare(x.Name, y.Name) })
	changed := !reflect.DeepEqual(next, c.groups)
	c.groups = next
	return changed
}

// Put takes over what the API server said of one group, which is gone if it has
// no versions, and reports whether that is news.
func (c *Catalog) Put(g Group) bool {
	g = c.merged(g)
	at, found := slices.BinarySearchFunc(c.groups, g.Name, func(x Group, name string) int { return compare(x.Name, name) })
	switch {
	case found && reflect.DeepEqual(c.groups[at], g), !found && len(g.Versions) == 0:
		return false
	case len(g.Versions) == 0:
		c.groups = slices.Delete(c.groups, at, at+1)
	case found:
		c.groups[at] = g
	default:
		c.groups = slices.Insert(c.groups, at, g)
	}
	return true
}

// merged keeps of versions that are unknown what was known.
func (c *Catalog) merged(g Group) Group {
	g.Versions = slices.Clone(g.Versions)
	for i := range g.Versions {
		if v := &g.Versions[i]; v.Unknown && len(v.Resources) == 0 {
			if old := c.version(g.Name, v.Name); old != nil {
				v.Resources = old.Resources
			}
		}
	}
	return g
}

func (c *Catalog) version(group, version string) *Version {
	at, found := slices.BinarySearchFunc(c.groups, group, func(x Group, name string) int { return compare(x.Name, name) })
	if !found {
		return nil
	}
	for i := range c.groups[at].Versions {
		if v := &c.groups[at].Versions[i]; v.Name == version {
			return v
		}
	}
	return nil
}

// Presence tells whether a kind is served.
func (c *Catalog) Presence(kind synchronizer.Kind) Presence {
	v := c.version(kind.Group, kind.Version)
	switch {
	case v == nil:
		return NotServed
	case v.find(kind.Resource) != nil:
		return Served
	case v.Unknown:
		return Unknown
	}
	return NotServed
}

func (v *Version) find(resource string) *Resource {
	for i := range v.Resources {
		if v.Resources[i].Name == resource {
			return &v.Resources[i]
		}
	}
	return nil
}

func compare(x, y string) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
