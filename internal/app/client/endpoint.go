// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/intake"
)

// endpoint is the in-cluster HTTP endpoint, with its listener.
type endpoint struct {
	*intake.Endpoint
	listener net.Listener
}

// openEndpoint takes the endpoint's port, if the configuration has an endpoint.
func (c *Client) openEndpoint(ctx context.Context, p *app.Process, cfg *config.Config, reg prometheus.Registerer) error {
	if cfg.HTTPEndpoint == nil {
		return nil
	}
	resources := make([]intake.Resource, len(cfg.HTTPEndpoint.Resources))
	for i := range cfg.HTTPEndpoint.Resources {
		r := &cfg.HTTPEndpoint.Resources[i]
		resources[i] = intake.Resource{Kind: r.Kind(), Patch: r.Patches()}
	}
	e, err := intake.New(intake.Options{
		Resources: resources, Outlet: c.agent, Auth: intake.ReadAuth(os.Getenv), APIServer: c.cluster,
		Logger: p.Logger, Registerer: reg,
	})
	if err != nil {
		return err
	}
	l, err := intake.Listen(ctx, app.LocalPort(cfg.HTTPEndpoint.ServerPort))
	if err != nil {
		return err
	}
	p.Logger.Info("endpoint", "address", l.Addr())
	c.endpoint = &endpoint{Endpoint: e, listener: l}
	return nil
}

// EndpointAddress is where reports are posted; empty if there is no endpoint.
func (c *Client) EndpointAddress() string {
	if c.endpoint == nil {
		return ""
	}
	return c.endpoint.listener.Addr().String()
}
