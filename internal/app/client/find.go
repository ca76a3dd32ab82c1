// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"

	"synchronizer/internal/discovery"
)

// findServer asks for the address of the server where the configuration says to.
// It returns with the address in the dialer, or with ctx.
func (c *Client) findServer(ctx context.Context) error {
	if c.api == "" {
		return nil
	}
	log := c.process.Logger
	if u, err := discovery.ParseAPI(c.api); err == nil {
		log.Info("finding the server", "api", u.Redacted())
	}
	finder := discovery.Client{API: c.api, HTTP: c.dialer.HTTPClient(), Logger: log}
	address, err := finder.Find(ctx)
	switch {
	case err == nil:
		c.dialer.URL = address
	case ctx.Err() != nil:
		return nil // not an error: the process ends
	case errors.Is(err, discovery.ErrNotTold) && c.dialer.URL != "":
		log.Warn("using inCluster.serverUrl", "error", err)
	case errors.Is(err, discovery.ErrNotTold):
		return fmt.Errorf("%w: set backend.publicUrl there, or inCluster.serverUrl here", err)
	default:
		return err
	}
	log.Info("found the server", "server", c.dialer.URL)
	return nil
}
