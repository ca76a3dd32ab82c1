// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

// version makes a version of resources; "-name" cannot be watched.
func version(name string, resources ...string) Version {
	v := Version{Name: name}
	for _, r := range resources {
		plain := strings.TrimPrefix(r, "-")
		v.Resources = append(v.Resources, Resource{Name: plain, Watchable: plain == r})
	}
	return v
}

func kind(t require.TestingT, text string) synchronizer.Kind {
	k, err := synchronizer.ParseKind(text)
	require.NoError(t, err)
	return k
}

func usual() *Catalog {
	var c Catalog
	c.Replace([]Group{
		{Name: "", Versions: []Version{version("v1", "pods", "secrets", "events", "endpoints", "-bindings", "configmaps")}},
		{Name: "apps", Versions: []Version{version("v1", "deployments"), version("v1beta1", "deployments", "olds")}},
		{Name: "events.k8s.io", Versions: []Version{version("v1", "events")}},
		{Name: "coordination.k8s.io", Versions: []Version{version("v1", "leases")}},
		{Name: "discovery.k8s.io", Versions: []Version{version("v1", "endpointslices")}},
		{Name: "metrics.k8s.io", Versions: []Version{version("v1beta1", "-pods")}},
		{Name: "example.org", Versions: []Version{version("v2", "widgets"), version("v1", "widgets")}},
	})
	return &c
}

func TestExpand(t *testing.T) {
	for name, test := range map[string]struct {
		entries []string
		inUse   string
		want    []string // with the index of the entry
	}{
		"named": {
			entries: []string{"apps/v1/deployments", "x.org/v1/absent", "/v1/secrets"},
			want:    []string{"/v1/secrets 2", "apps/v1/deployments 0", "x.org/v1/absent 1"},
		},
		"all": {
			entries: []string{"*/*/*"},
			want:    []string{"/v1/configmaps 0", "/v1/pods 0", "apps/v1/deployments 0", "apps/v1beta1/olds 0", "example.org/v2/widgets 0"},
		},
		"named resource": {
			entries: []string{"*/*/events", "*/v1/secrets"},
			want:    []string{"/v1/events 0", "/v1/secrets 1", "events.k8s.io/v1/events 0"},
		},
		"what cannot be watched": {entries: []string{"*/*/pods", "/*/bindings"}, want: []string{"/v1/pods 0"}},
		"named wins over wildcard, in all versions": {
			entries: []string{"apps/*/*", "apps/v1beta1/deployments"},
			want:    []string{"apps/v1beta1/deployments 1", "apps/v1beta1/olds 0"},
		},
		"fewer wildcards win": {
			entries: []string{"*/*/*", "/v1/*", "/v1/pods"},
			want:    []string{"/v1/configmaps 1", "/v1/pods 2", "apps/v1/deployments 0", "apps/v1beta1/olds 0", "example.org/v2/widgets 0"},
		},
		"named versions": {
			entries: []string{"example.org/v1/*", "example.org/v2/*"},
			want:    []string{"example.org/v1/widgets 0", "example.org/v2/widgets 1"},
		},
		"version in use": {entries: []string{"example.org/*/*"}, inUse: "example.org/v1/widgets", want: []string{"example.org/v1/widgets 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			var entries []synchronizer.Kind
			for _, e := range test.entries {
				entries = append(entries, kind(t, e))
			}
			var got []string
			for k, i := range Expand(entries, usual(), func(k synchronizer.Kind) bool { return k.String() == test.inUse }) {
				got = append(got, k.String()+" "+string(rune('0'+i)))
			}
			slices.Sort(got)
			require.Equal(t, test.want, got)
		})
	}
}

func TestPresence(t *testing.T) {
	c := usual()
	widgets := kind(t, "example.org/v2/widgets")
	require.Equal(t, Served, c.Presence(widgets))
	require.Equal(t, NotServed, c.Presence(kind(t, "example.org/v2/others")))
	require.Equal(t, NotServed, c.Presence(kind(t, "example.org/v3/widgets")))
	require.Equal(t, NotServed, c.Presence(kind(t, "other.org/v2/widgets")))

	require.True(t, c.Put(Group{Name: "example.org", Versions: []Version{{Name: "v2", Unknown: true}}}))
	require.Equal(t, Served, c.Presence(widgets), "what was known counts while the API server cannot tell")
	require.Equal(t, Unknown, c.Presence(kind(t, "example.org/v2/others")))
	require.False(t, c.Put(Group{Name: "example.org", Versions: []Version{{Name: "v2", Unknown: true}}}))
	require.True(t, c.Put(Group{Name: "example.org"}))
	require.False(t, c.Put(Group{Name: "example.org"}))
	require.Equal(t, NotServed, c.Presence(widgets))
	require.True(t, c.Put(Group{Name: "a.org", Versions: []Version{version("v1", "as")}}))
	require.Equal(t, Served, c.Presence(kind(t, "a.org/v1/as")))
	require.Equal(t, Served, c.Presence(kind(t, "/v1/pods")))
}

// TestExpandProperty: no objects are meant twice by wildcards for the version, and every kind
// comes from an entry that matches it.
func TestExpandProperty(t *testing.T) {
	parts := func(t *rapid.T, label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	rapid.Check(t, func(t *rapid.T) {
		c := usual()
		entries := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) synchronizer.Kind {
			return synchronizer.Kind{
				Group:    parts(t, "group", Any, "", "apps", "example.org"),
				Version:  parts(t, "version", Any, "v1", "v2", "v1beta1"),
				Resource: parts(t, "resource", Any, "pods", "secrets", "widgets", "deployments"),
			}
		}), 1, 6, rapid.ID[synchronizer.Kind]).Draw(t, "entries")
		none := func(synchronizer.Kind) bool { return false }
		kinds := Expand(entries, c, none)
		anyVersion := map[GroupResource]bool{}
		for k, i := range kinds {
			e := entries[i]
			require.True(t, (e.Group == Any || e.Group == k.Group) && (e.Version == Any || e.Version == k.Version) && (e.Resource == Any || e.Resource == k.Resource))
			if e.Version == Any {
				require.False(t, anyVersion[Of(k)])
				anyVersion[Of(k)] = true
			}
			if e.Resource == Any {
				require.False(t, unnamed[Of(k)])
			}
			if IsPattern(e) {
				require.Equal(t, Served, c.Presence(k))
			}
		}
		// What is in use stays, whatever else is asked.
		again := Expand(entries, c, func(k synchronizer.Kind) bool { _, used := kinds[k]; return used })
		require.True(t, maps.Equal(kinds, again), "%v %v", kinds, again)
	})
}
