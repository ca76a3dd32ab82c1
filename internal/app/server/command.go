// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"os"

	"synchronizer/internal/app"
	"synchronizer/internal/config"
)

// Run is the server as a process: configuration from files and environment, log
// on stderr, until ctx ends. ConfigDir wins over CONFIG.
func Run(ctx context.Context, configDir string) error {
	env := config.OS()
	if configDir != "" {
		env = env.With("CONFIG", configDir)
	}
	c, warnings, err := config.LoadServer(env)
	p := app.NewProcess(os.Stderr)
	app.Warn(p.Logger, warnings)
	if err != nil {
		return err
	}
	defer p.StartTracing("synchronizer-server")()
	b, err := Open(ctx, p, c)
	if err != nil {
		return err
	}
	if b.APIAddress() == "" {
		p.Logger.Info("records are left to other ingesters, so this process has no store and no API", "queue", c.Backend.QueueType())
	}
	p.Logger.Info("serving", "clients", b.ClientsAddress(), "api", b.APIAddress(), "apiToken", b.Secrets.APITokenFile, "queue", c.Backend.QueueType())
	return b.Run(ctx)
}

// RunIngester is the ingester as a process of its own.
func RunIngester(ctx context.Context, configDir string) error {
	env := config.OS()
	if configDir != "" {
		env = env.With("CONFIG", configDir)
	}
	c, warnings, err := config.LoadIngester(env)
	p := app.NewProcess(os.Stderr)
	app.Warn(p.Logger, warnings)
	if err != nil {
		return err
	}
	defer p.StartTracing("synchronizer-ingester")()
	b, err := OpenIngester(ctx, p, c)
	if err != nil {
		return err
	}
	p.Logger.Info("ingesting", "queue", c.Backend.QueueType(), "group", c.IngesterGroup(), "health", b.HealthAddress())
	return b.Run(ctx)
}
