// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"synchronizer/internal/app"
	"synchronizer/internal/app/client"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
)

// reconcileAfterConnect, in seconds, lets a client that comes back find out what
// was deleted while it was away. Servers in the field do not do so by default, and
// so neither do ours with a configuration file.
const reconcileAfterConnect = 30

// upFlags are the flags of up; empty ones leave the configuration as it is.
type upFlags struct {
	configDir, dataDir, listen, apiListen string
	healthPort                            int
	kubeconfig, context, cluster          string
}

func newUp() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use: "up", GroupID: "run", Args: usageArgs(cobra.NoArgs),
		Short: "Run everything in one process",
		Long: `Run server, queue, ingester, store and API in one process, with no dependencies:
the queue and the database are files in the data directory. With --kubeconfig also
a client for that cluster. The first start makes the account "local", an access key
for its clients and an API token for you. Without a configuration file clients are asked
30 s after they connect to compare what they have with what is stored.`,
		Example: `  synchronizer up
  synchronizer up --kubeconfig ~/.kube/config --cluster dev`,
		RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd, f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.configDir, "config", "", "folder of config.json (default: the environment variable CONFIG; without it the defaults)")
	fl.StringVar(&f.dataDir, "data-dir", "./data", "folder of everything that is kept")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:8080", "address for clients")
	fl.StringVar(&f.apiListen, "api-listen", "127.0.0.1:8090", "address of the API")
	fl.IntVar(&f.healthPort, "health-port", 7888, "port of /healthz, /readyz and /metrics; 0: any free one")
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "also run a client for the cluster of this kubeconfig")
	fl.StringVar(&f.context, "context", "", "context of the kubeconfig (default: its current one)")
	fl.StringVar(&f.cluster, "cluster", "", "name of that cluster (needed with --kubeconfig)")
	markDirectory(cmd, "config")
	markDirectory(cmd, "data-dir")
	cmd.MarkFlagsRequiredTogether("kubeconfig", "cluster")
	return cmd
}

func up(cmd *cobra.Command, f upFlags) error {
	env := f.environment(cmd, config.OS())
	c, warnings, err := config.LoadUp(env)
	p := app.NewProcess(os.Stderr)
	app.Warn(p.Logger, warnings)
	if err != nil {
		return err
	}
	compareByDefault(c, env)
	ctx := cmd.Context()
	defer p.StartTracing("synchronizer")()
	backend, err := server.Open(ctx, p, c)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	if f.kubeconfig != "" {
		f.configureClient(c, backend)
		cl, err := client.Open(ctx, p, c, kube.LoadOptions{Flag: f.kubeconfig, Context: f.context}, false)
		if err != nil {
			_ = backend.Close()
			return err
		}
		p.SetStatus(func() any { return cl.Status() })
		g.Go(func() error { return cl.Run(ctx) })
	}
	greet(cmd, backend, f)
	g.Go(func() error { return backend.Run(ctx) })
	g.Go(func() error { return announceReady(ctx, c.Backend.DataDir, backend) })
	return g.Wait()
}

// compareByDefault holds where no file says what is wanted: what the samples say.
func compareByDefault(c *config.Config, env config.Env) {
	if dir, _ := env.Lookup("CONFIG"); dir == "" {
		task := &c.Backend.ReconciliationTask
		task.ReconcileAfterConnectSeconds = reconcileAfterConnect
		task.CronSchedule, task.IntervalFromConnectionSeconds = "0 * * * *", 600
	}
}

// environment puts the flags over the configuration, in the form of the
// environment variables of their keys. Without a file the flags' defaults hold
// too, and clients need an access key; with one only the flags that were given.
func (f *upFlags) environment(cmd *cobra.Command, env config.Env) config.Env {
	if f.configDir != "" {
		env = env.With("CONFIG", f.configDir)
	}
	dir, _ := env.Lookup("CONFIG")
	for flag, key := range map[string]string{
		"data-dir": "SYNCHRONIZER_BACKEND_DATADIR", "listen": "SYNCHRONIZER_BACKEND_LISTEN",
		"api-listen": "SYNCHRONIZER_API_LISTEN", "health-port": "SYNCHRONIZER_BACKEND_HEALTHPORT",
	} {
		if dir == "" || cmd.Flags().Changed(flag) {
			env = env.With(key, cmd.Flags().Lookup(flag).Value.String())
		}
	}
	if dir == "" {
		env = env.With("SYNCHRONIZER_BACKEND_ACCESSKEYS", config.AccessKeysStore)
	}
	return env
}

// configureClient makes the client of --kubeconfig one of this backend.
func (f *upFlags) configureClient(c *config.Config, b *server.Backend) {
	in := &c.InCluster
	in.ServerURL = b.ClientsURL()
	in.Account, in.AccessKey, in.ClusterName = server.LocalAccount, config.Secret(b.Secrets.AccessKey), f.cluster
	if in.AccessKey == "" {
		in.AccessKey = "anonymous"
	}
	if len(in.Resources) == 0 {
		in.Resources = config.CommonResources()
	}
}

// greet says where everything is. Secrets go to a terminal only, and only when
// they were just made.
func greet(cmd *cobra.Command, b *server.Backend, f upFlags) {
	show := func(secret, file string) string {
		if b.Secrets.Made && secret != "" && term.IsTerminal(int(os.Stdout.Fd())) {
			return secret + "  (also in " + file + ")"
		}
		return "in " + file
	}
	cmd.Printf("API         http://%s\n", b.APIAddress())
	cmd.Printf("API token   %s\n", show(b.Secrets.APIToken, b.Secrets.APITokenFile))
	cmd.Printf("Clients     %s\n", b.ClientsURL())
	if b.Secrets.AccessKey != "" && !b.Secrets.Revoked {
		cmd.Printf("Access key  %s, account %s\n", show(b.Secrets.AccessKey, b.Secrets.AccessKeyFile), server.LocalAccount)
	}
	cmd.Printf("Next        synchronizer get all -A --server http://%s --token-file %s\n", b.APIAddress(), b.Secrets.APITokenFile)
	if f.kubeconfig == "" {
		cmd.Printf("            synchronizer up --kubeconfig FILE --cluster NAME   (a client for a cluster, in the same process)\n")
	}
}

// addressesFile tells scripts where a backend listens; it exists while one is ready.
const addressesFile = "addresses.json"

// announceReady writes the addresses as soon as the backend is ready, and
// removes them at the end.
func announceReady(ctx context.Context, dataDir string, b *server.Backend) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for b.Ready() != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	text, err := json.Marshal(map[string]string{"clients": b.ClientsAddress(), "api": b.APIAddress(), "health": b.HealthAddress()})
	if err != nil {
		return fmt.Errorf("marshalling the addresses: %w", err)
	}
	name := filepath.Join(dataDir, addressesFile)
	if err := os.WriteFile(name+".new", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the addresses: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("writing the addresses: %w", err)
	}
	<-ctx.Done()
	_ = os.Remove(name)
	return nil
}
