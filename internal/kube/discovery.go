// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"synchronizer"
)

// Description is what the API server says of a kind.
type Description struct {
	ObjectKind string // "Deployment"
	Namespaced bool
	Verbs      []string
}

// discoveryLimit bounds an answer; that about all groups of a large cluster has
// about 1 MiB.
const discoveryLimit = 32 << 20

const plainJSON = "application/json"

// groupVersion is what is known of the kinds of one group and version.
type groupVersion struct {
	turn  chan struct{} // holds a token while nobody asks
	kinds map[string]Description
}

// Describe asks the API server about a kind, or remembers. A kind that was not
// served is asked for again, since its CRD may have come.
func (c *Cluster) Describe(ctx context.Context, kind synchronizer.Kind) (Description, error) {
	if err := checkKind(kind); err != nil {
		return Description{}, err
	}
	key := kind.GroupVersion()
	c.mu.Lock()
	group := c.groups[key]
	if group == nil {
		group = &groupVersion{turn: make(chan struct{}, 1)}
		group.turn <- struct{}{}
		c.groups[key] = group
	}
	c.mu.Unlock()

	// One request serves all kinds of the group that start together.
	select {
	case <-group.turn:
		defer func() { group.turn <- struct{}{} }()
	case <-ctx.Done():
		return Description{}, ctx.Err()
	}
	if d, ok := group.kinds[kind.Resource]; ok {
		return d, nil
	}
	kinds, err := c.discover(ctx, kind)
	if err != nil {
		return Description{}, fmt.Errorf("asking for the kinds of %s: %w", key, err)
	}
	group.kinds = kinds
	d, ok := kinds[kind.Resource]
	if !ok {
		return d, fmt.Errorf("%w: %s has no %s", synchronizer.ErrKindNotServed, key, kind.Resource)
	}
	return d, nil
}

// forget makes Describe ask again.
func (c *Cluster) forget(kind synchronizer.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.groups, kind.GroupVersion())
}

func (c *Cluster) discover(ctx context.Context, kind synchronizer.Kind) (map[string]Description, error) {
	var list struct {
		Kind      string `json:"kind"`
		Resources []struct {
			Name       string   `json:"name"`
			Kind       string   `json:"kind"`
			Namespaced bool     `json:"namespaced"`
			Verbs      []string `json:"verbs"`
		} `json:"resources"`
	}
	if err := c.readDiscovery(ctx, plainJSON, groupPath(kind), &list); err != nil {
		return nil, err
	}
	if list.Kind != "APIResourceList" {
		return nil, fmt.Errorf("reading answer: it is a %q, not an APIResourceList", list.Kind)
	}
	kinds := make(map[string]Description, len(list.Resources))
	for _, r := range list.Resources {
		kinds[r.Name] = Description{ObjectKind: r.Kind, Namespaced: r.Namespaced, Verbs: slices.Clone(r.Verbs)}
	}
	return kinds, nil
}

// readDiscovery reads one document into into.
func (c *Cluster) readDiscovery(ctx context.Context, accept, path string, into any) error {
	a, err := c.getAs(ctx, accept, "discovery", path, nil, c.options.ReadSilence)
	if err != nil {
		return err
	}
	defer a.Close()
	raw, err := io.ReadAll(io.LimitReader(a, discoveryLimit+1))
	if err != nil {
		return fmt.Errorf("reading answer: %w", err)
	}
	if len(raw) > discoveryLimit {
		return errors.New("reading answer: it is too large")
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("reading answer: %w", err)
	}
	return nil
}
