// SPDX-License-Identifier: Apache-2.0

package client

import (
	"synchronizer"
	"synchronizer/internal/agent"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
)

// storageGroup is the group whose lists and watches give only metadata.
const storageGroup = "spdx.softwarecomposition.kubescape.io"

// kinds translates what the configuration lists. Without memory for baselines
// there are no differences to send.
func kinds(in *config.InCluster) []agent.KindConfig {
	list := make([]agent.KindConfig, len(in.Resources))
	for i := range in.Resources {
		r := &in.Resources[i]
		list[i] = agent.KindConfig{
			Kind: r.Kind(), Strategy: agent.StrategyCopy, Mode: agent.ModeObject, Hollow: r.Group == storageGroup,
			LabelSelector: r.LabelSelector, FieldSelector: r.FieldSelector, Namespaces: r.Namespaces,
		}
		if r.Patches() && in.BaselineCacheBytes > 0 {
			list[i].Strategy = agent.StrategyPatch
		}
		if r.Events() {
			list[i].Mode = agent.ModeEvent
		}
	}
	return list
}

// selected is the part of the cluster that a kind is read from.
func (c *Client) selected(k agent.KindConfig) synchronizer.Cluster {
	selection := kube.Selection{LabelSelector: k.LabelSelector, FieldSelector: k.FieldSelector}
	switch {
	case len(k.Namespaces) > 0:
		return c.cluster.SelectNamespaces(selection, k.Namespaces...)
	case selection != kube.Selection{}:
		return c.cluster.Select(selection)
	}
	return c.cluster
}

// Status is what the health port says of the client under /status.
type Status struct {
	Version string `json:"version"`
	Account string `json:"account"`
	Cluster string `json:"cluster"`
	// Policy is the hash of the rules that hide parts of objects.
	Policy string `json:"policy"`
	agent.Status
	// Drops are what was not carried, by reason; see docs/drops.md.
	Drops map[synchronizer.DropReason]int64 `json:"drops"`
}

// Status returns a snapshot.
func (c *Client) Status() Status {
	id := c.dialer.Hello.ClusterID
	return Status{
		Version: c.version, Account: id.Account, Cluster: id.Cluster, Policy: c.policy,
		Status: c.agent.Status(), Drops: c.process.Drops.Counts(),
	}
}
