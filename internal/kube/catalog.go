// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"synchronizer"
	"synchronizer/internal/catalog"
)

// aggregatedJSON asks for the document that holds all groups at once
// (KEP-3352, stable since Kubernetes 1.30; v2beta1 since 1.26). An API server
// that does not have it answers in plain JSON with the names of the groups.
const aggregatedJSON = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList," + plainJSON

// rootDocument is the answer about /api or /apis in each of its forms.
type rootDocument struct {
	Kind string `json:"kind"`
	// APIGroupDiscoveryList
	Items []groupDiscovery `json:"items"`
	// APIGroupList
	Groups []apiGroup `json:"groups"`
	// APIVersions
	Versions []string `json:"versions"`
}

type groupDiscovery struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Versions []struct {
		Version   string `json:"version"`
		Freshness string `json:"freshness"`
		Resources []struct {
			Resource     string `json:"resource"`
			Scope        string `json:"scope"`
			ResponseKind struct {
				Kind string `json:"kind"`
			} `json:"responseKind"`
			Verbs []string `json:"verbs"`
		} `json:"resources"`
	} `json:"versions"`
}

type apiGroup struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Versions []struct {
		Version string `json:"version"`
	} `json:"versions"`
	PreferredVersion struct {
		Version string `json:"version"`
	} `json:"preferredVersion"`
}

// Groups asks for all groups: two requests where the API server knows
// aggregated discovery, else one more for every version. The versions of an
// aggregated API server that is down are marked as unknown.
func (c *Cluster) Groups(ctx context.Context) ([]catalog.Group, error) {
	core, err := c.root(ctx, "/api")
	if err != nil {
		return nil, err
	}
	named, err := c.root(ctx, "/apis")
	if err != nil {
		return nil, err
	}
	return append(core, named...), nil
}

// Group asks for one group; without versions it is not served.
func (c *Cluster) Group(ctx context.Context, name string) (catalog.Group, error) {
	if name == "" {
		core, err := c.root(ctx, "/api")
		if err != nil || len(core) != 1 {
			return catalog.Group{}, err
		}
		return core[0], nil
	}
	if !isSegment(name) {
		return catalog.Group{}, fmt.Errorf("%w: %q cannot be a group", synchronizer.ErrInvalid, name)
	}
	var g apiGroup
	err := c.readDiscovery(ctx, plainJSON, "/apis/"+name, &g)
	switch {
	case errors.Is(err, synchronizer.ErrKindNotServed):
		return catalog.Group{Name: name}, nil
	case err != nil:
		return catalog.Group{}, fmt.Errorf("asking for the group %s: %w", name, err)
	case g.Kind != "APIGroup":
		return catalog.Group{}, fmt.Errorf("asking for the group %s: the answer is a %q", name, g.Kind)
	}
	g.Name = name
	return c.group(ctx, g)
}

func (c *Cluster) root(ctx context.Context, path string) ([]catalog.Group, error) {
	var doc rootDocument
	if err := c.readDiscovery(ctx, aggregatedJSON, path, &doc); err != nil {
		return nil, fmt.Errorf("asking for the groups of %s: %w", path, err)
	}
	var groups []catalog.Group
	switch doc.Kind {
	case "APIGroupDiscoveryList":
		for i := range doc.Items {
			groups = append(groups, doc.Items[i].group())
		}
		return groups, nil
	case "APIVersions":
		core := apiGroup{}
		for _, v := range doc.Versions {
			core.Versions = append(core.Versions, struct {
				Version string `json:"version"`
			}{v})
		}
		doc.Groups = []apiGroup{core}
	case "APIGroupList":
	default:
		return nil, fmt.Errorf("asking for the groups of %s: the answer is a %q", path, doc.Kind)
	}
	for _, g := range doc.Groups {
		group, err := c.group(ctx, g)
		if err != nil {
			return nil, err
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// group asks for the resources of each version, the preferred one first.
func (c *Cluster) group(ctx context.Context, g apiGroup) (catalog.Group, error) {
	group := catalog.Group{Name: g.Name}
	for _, v := range g.Versions {
		version := catalog.Version{Name: v.Version}
		kinds, err := c.discover(ctx, synchronizer.Kind{Group: g.Name, Version: v.Version})
		switch {
		case ctx.Err() != nil:
			return catalog.Group{}, ctx.Err()
		case errors.Is(err, synchronizer.ErrKindNotServed):
			continue // it went meanwhile
		case err != nil:
			version.Unknown = true
		}
		for name, d := range kinds {
			if !strings.Contains(name, "/") {
				version.Resources = append(version.Resources, resource(name, d.ObjectKind, d.Namespaced, d.Verbs))
			}
		}
		slices.SortFunc(version.Resources, byName)
		if v.Version == g.PreferredVersion.Version {
			group.Versions = slices.Insert(group.Versions, 0, version)
		} else {
			group.Versions = append(group.Versions, version)
		}
	}
	return group, nil
}

func (g *groupDiscovery) group() catalog.Group {
	group := catalog.Group{Name: g.Metadata.Name}
	for _, v := range g.Versions {
		version := catalog.Version{Name: v.Version, Unknown: v.Freshness == "Stale"}
		for _, r := range v.Resources {
			version.Resources = append(version.Resources, resource(r.Resource, r.ResponseKind.Kind, r.Scope == "Namespaced", r.Verbs))
		}
		slices.SortFunc(version.Resources, byName)
		group.Versions = append(group.Versions, version)
	}
	return group
}

func resource(name, objectKind string, namespaced bool, verbs []string) catalog.Resource {
	return catalog.Resource{
		Name: name, ObjectKind: objectKind, Namespaced: namespaced,
		Watchable: slices.Contains(verbs, "list") && slices.Contains(verbs, "watch"),
	}
}

func byName(x, y catalog.Resource) int { return strings.Compare(x.Name, y.Name) }
