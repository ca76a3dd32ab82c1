// SPDX-License-Identifier: Apache-2.0

package client

import (
	"slices"
	"strings"

	"synchronizer"
	"synchronizer/internal/agent"
	"synchronizer/internal/catalog"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
)

// storageGroup is the group whose lists and watches give only metadata.
const storageGroup = "spdx.softwarecomposition.kubescape.io"

// Kinds translates what the configuration lists. Without memory for baselines
// there are no differences to send.
func Kinds(in *config.InCluster) []agent.KindConfig {
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

// ExpandKinds is Kinds for a cluster that serves these groups, without wildcards.
func ExpandKinds(in *config.InCluster, groups []catalog.Group) []agent.KindConfig {
	configured := Kinds(in)
	patterns := make([]synchronizer.Kind, len(configured))
	for i := range configured {
		patterns[i] = configured[i].Kind
	}
	var served catalog.Catalog
	served.Replace(groups)
	var list []agent.KindConfig
	for kind, i := range catalog.Expand(patterns, &served, func(synchronizer.Kind) bool { return false }) {
		expanded := configured[i]
		expanded.Kind = kind
		list = append(list, expanded)
	}
	slices.SortFunc(list, func(x, y agent.KindConfig) int { return strings.Compare(x.Kind.String(), y.Kind.String()) })
	return list
}

// selected is the part of the cluster that a kind is read from.
func (c *Client) selected(k agent.KindConfig) synchronizer.Cluster { return Selected(c.cluster, k) }

// Selected is the part of a cluster that a kind is read from.
func Selected(cluster *kube.Cluster, k agent.KindConfig) synchronizer.Cluster {
	selection := kube.Selection{LabelSelector: k.LabelSelector, FieldSelector: k.FieldSelector}
	switch {
	case len(k.Namespaces) > 0:
		return cluster.SelectNamespaces(selection, k.Namespaces...)
	case selection != kube.Selection{}:
		return cluster.Select(selection)
	}
	return cluster
}

// Status is what the health port says of the client under /status.
type Status struct {
	Version string `json:"version"`
	Account string `json:"account"`
	Cluster string `json:"cluster"`
	// Policy is the hash of the rules that hide parts of objects.
	Policy string `json:"policy"`
	// NamespaceRules are where the rules on namespaces come from.
	NamespaceRules RulesStatus `json:"namespaceRules"`
	agent.Status
	// Drops are what was not carried, by reason; see docs/drops.md.
	Drops map[synchronizer.DropReason]int64 `json:"drops"`
}

// Status returns a snapshot.
func (c *Client) Status() Status {
	id := c.dialer.Hello.ClusterID
	return Status{
		Version: c.version, Account: id.Account, Cluster: id.Cluster, Policy: c.policy, NamespaceRules: c.rules.status(),
		Status: c.agent.Status(), Drops: c.process.Drops.Counts(),
	}
}
