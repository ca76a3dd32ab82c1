// SPDX-License-Identifier: Apache-2.0

package client

import (
	"synchronizer"
	"synchronizer/internal/agent"
	"synchronizer/internal/apply"
	"synchronizer/internal/config"
	"synchronizer/internal/dedup"
	"synchronizer/internal/policy"
)

// applier writes what the backend says, as far as the agent's kinds allow it.
func (c *Client) applier(transform *policy.Transform) agent.Applier {
	a := apply.New(apply.Options{Cluster: c.cluster, Policy: transform, Strategy: c.strategy})
	if c.process.Tracer != nil {
		return tracedApplier{a, c.process.Tracer}
	}
	return a
}

func (c *Client) strategy(kind synchronizer.Kind) apply.Strategy {
	configured, found := c.agent.Configured(kind)
	switch {
	case !found:
		return apply.NotConfigured
	case configured.Strategy == agent.StrategyPatch:
		return apply.Patch
	}
	return apply.Copy
}

// applied remembers what was written; nil if that is turned off.
func applied(d config.Deduplication) *dedup.Memory {
	if d.Disabled {
		return nil
	}
	ttl, _ := d.TTLSeconds.Duration() // what does not fit was set to the default
	return dedup.New(dedup.Options{TTL: ttl, MaxMessages: d.MaxMessages})
}
