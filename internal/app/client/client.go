// SPDX-License-Identifier: Apache-2.0

// Package client wires the client: an API server, the agent and a link. It links
// no queue, store or API (a test on the program's dependencies holds it to that).
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"synchronizer"
	"synchronizer/internal/agent"
	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
	"synchronizer/internal/link"
	"synchronizer/internal/policy"
	"synchronizer/internal/telemetry"
)

// Client is a client that has been opened and not yet run.
type Client struct {
	process  *app.Process
	cluster  *kube.Cluster
	dialer   *link.Dialer
	agent    *agent.Agent
	endpoint *endpoint // nil if there is none
	rules    rules
	api      string // where to ask for the server; empty: the dialer knows it
	health   net.Listener
	version  string
	policy   string // hash
}

// Open prepares a client for the API server that load finds. It sends nothing:
// an API server or a backend that is away is no start error. With health false
// the process has another health port.
func Open(ctx context.Context, p *app.Process, c *config.Config, load kube.LoadOptions, health bool) (_ *Client, err error) {
	reg := p.Registerer("client")
	transform, err := c.Policy(policy.LinkV1)
	if err != nil {
		return nil, err
	}
	rest, description, err := kube.LoadConfig(load)
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	p.Logger.Info("watching", "apiServer", description, "kinds", len(c.InCluster.Resources))
	in := &c.InCluster
	client := &Client{process: p, api: c.Process.APIURL, policy: fmt.Sprintf("%x", transform.Hash())}
	if client.cluster, err = kube.New(kube.Options{
		Config: rest, QPS: in.QPS, Burst: in.Burst, ItemBytes: int(in.MaxObjectBytes),
		Logger: p.Logger, Registerer: reg,
	}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			client.cluster.Close()
			if client.endpoint != nil {
				_ = client.endpoint.listener.Close()
			}
		}
	}()
	frames, err := link.NewMetrics(reg)
	if err != nil {
		return nil, err
	}
	client.version = c.Process.Release
	if client.version == "" {
		client.version = synchronizer.Version
	}
	client.dialer = &link.Dialer{
		URL: in.ServerURL, AccessKey: in.AccessKey.Reveal(), CAFile: in.CAFile,
		Hello: synchronizer.Hello{
			ClusterID:           synchronizer.ClusterID{Account: in.Account, Cluster: in.ClusterName},
			SynchronizerVersion: client.version,
			HelmVersion:         c.Process.HelmRelease,
		},
		Limits: link.Limits{MaxMessageBytes: int(in.MaxObjectBytes)},
		Drop:   p.Drops.Drop, Logger: p.Logger, Metrics: frames,
	}
	if client.rules, err = newRules(c, client.cluster, p.Logger, reg); err != nil {
		return nil, err
	}
	if client.agent, err = agent.New(agent.Options{
		Cluster: client.cluster, Select: client.selected, Discovery: client.cluster,
		Dialer: p.Tracer.Dialer(client.dialer), Kinds: Kinds(in),
		Filter: client.rules.filter, Policy: transform,
		Applier: client.applier(transform), Applied: applied(in.Deduplication),
		Drop: p.Drops.Drop, MaxObjectBytes: int(in.MaxObjectBytes), BaselineBytes: int(in.BaselineCacheBytes),
		CoalesceWindow: max(in.CoalesceWindow.Std(), time.Nanosecond), // its zero is the default
		Logger:         p.Logger, Registerer: reg,
	}); err != nil {
		return nil, err
	}
	if err = client.openEndpoint(ctx, p, c, reg); err != nil {
		return nil, err
	}
	if health {
		if client.health, err = telemetry.Listen(ctx, app.LocalPort(in.HealthPort), "inCluster.healthPort"); err != nil {
			return nil, err
		}
		p.Logger.Info("health", "address", client.health.Addr())
	}
	return client, nil
}

// Ready is nil once there are namespace rules and the first connection was made,
// until the process is to end. A link that breaks later is no reason to take the
// endpoint away from who reports to it: it says 429 until there is one again.
func (c *Client) Ready() error {
	if err := c.process.Stopping(); err != nil {
		return err
	}
	if err := c.rules.err(); err != nil {
		return err
	}
	if !c.agent.Ready() {
		return errors.New("not yet connected to the server")
	}
	return nil
}

// HealthAddress is where probes ask; empty if the process has another health port.
func (c *Client) HealthAddress() string {
	if c.health == nil {
		return ""
	}
	return c.health.Addr().String()
}

// Run synchronizes until ctx ends (nil) or the server refuses the client for
// good at its first connect. It connects when there are namespace rules.
func (c *Client) Run(ctx context.Context) error {
	defer c.cluster.Close()
	parts := []func(context.Context) error{
		func(ctx context.Context) error {
			c.rules.run(ctx)
			return nil
		},
		func(ctx context.Context) error {
			if !c.rules.wait(ctx) {
				return nil
			}
			if err := c.findServer(ctx); err != nil {
				return err
			}
			facts := c.cluster.Facts(ctx)
			c.dialer.Hello.GitVersion, c.dialer.Hello.CloudProvider = facts.GitVersion, facts.CloudProvider
			c.dialer.Hello.ClusterUID, c.dialer.Hello.ResourceGroup = facts.ClusterUID, facts.ResourceGroup
			return c.agent.Run(ctx)
		},
	}
	if c.endpoint != nil {
		parts = append(parts, func(ctx context.Context) error { return c.endpoint.Serve(ctx, c.endpoint.listener) })
	}
	var ports []func(context.Context) error
	if c.health != nil {
		c.process.SetStatus(func() any { return c.Status() })
		ports = append(ports, c.process.Profiler, func(ctx context.Context) error { return c.process.Health(ctx, c.health, c.Ready) })
	}
	return c.process.Run(ctx, parts, ports, nil)
}
