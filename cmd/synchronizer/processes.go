// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"synchronizer/internal/app/client"
	"synchronizer/internal/app/server"
)

const configFlagHelp = "folder of config.json (default: the environment variable CONFIG, then /etc/config)"

func newAgent() *cobra.Command {
	var s client.Settings
	cmd := &cobra.Command{
		Use: "agent", GroupID: "run", Args: usageArgs(cobra.NoArgs),
		Short: "Run the client of one cluster",
		Long: `Run the client of one cluster: it watches the kinds of inCluster.resources and
sends what happens to the server. The API server is that of --kubeconfig, else of
KUBECONFIG, else the one of the pod it runs in.`,
		Example: "  synchronizer agent --config ./configuration/client --kubeconfig ~/.kube/config",
		RunE:    func(cmd *cobra.Command, _ []string) error { return client.Run(cmd.Context(), s) },
	}
	cmd.Flags().StringVar(&s.ConfigDir, "config", "", configFlagHelp)
	cmd.Flags().StringVar(&s.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	cmd.Flags().StringVar(&s.Context, "context", "", "context of the kubeconfig (default: its current one)")
	markDirectory(cmd, "config")
	return cmd
}

func newServer() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "server", GroupID: "run", Args: usageArgs(cobra.NoArgs),
		Short: "Run the server that clients connect to",
		Long: `Run the server that clients connect to. Without a queue in its configuration it
runs the embedded queue, the ingester, SQLite and the API in the same process.`,
		Example: "  synchronizer server --config ./configuration/server",
		RunE:    func(cmd *cobra.Command, _ []string) error { return server.Run(cmd.Context(), dir) },
	}
	cmd.Flags().StringVar(&dir, "config", "", configFlagHelp)
	markDirectory(cmd, "config")
	return cmd
}

func newIngester() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "ingester", GroupID: "run", Args: usageArgs(cobra.NoArgs),
		Short: "Run an ingester of its own, beside the server",
		Long: `Run an ingester of its own, beside the server. It needs a queue and a database
that several processes can share; the embedded queue and SQLite belong to one
process, so with them this is a configuration error.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return server.RunIngester(cmd.Context(), dir) },
	}
	cmd.Flags().StringVar(&dir, "config", "", configFlagHelp)
	markDirectory(cmd, "config")
	return cmd
}

// markDirectory makes the shell complete a flag with folders.
func markDirectory(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagDirname(flag); err != nil {
		panic(err) // only for a flag that does not exist
	}
}
