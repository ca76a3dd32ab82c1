// SPDX-License-Identifier: Apache-2.0

// The one command line of Synchronizer.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"synchronizer"
	"synchronizer/internal/app"
)

func main() {
	os.Exit(app.Main(os.Stderr, func(ctx context.Context) error {
		root := newRoot()
		root.SetOut(os.Stdout)
		err := root.ExecuteContext(ctx)
		// Cobra has no types for these two.
		if err != nil && (strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "if any flags in the group")) {
			err = fmt.Errorf("%w: %w; see synchronizer --help", app.ErrUsage, err)
		}
		return err
	}))
}

// newRoot makes the command tree: processes first, then what reads a fleet, then
// tools.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "synchronizer",
		Short: "Keep the state of many Kubernetes clusters in one place",
		Long: `Synchronizer keeps the state of many Kubernetes clusters in one place.

A client in each cluster watches kinds and sends changes to a server; an ingester
writes them into a database, from which people read the fleet.`,
		Example: `  synchronizer up --kubeconfig ~/.kube/config --cluster dev   # everything in one process
  synchronizer get deployments -A                             # what is stored
  synchronizer diff dev --kubeconfig ~/.kube/config           # does it agree with the cluster?`,
		Version:       synchronizer.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: %w; see %s --help", app.ErrUsage, err, cmd.CommandPath())
	})
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run:"},
		&cobra.Group{ID: "read", Title: "Read the fleet:"},
		&cobra.Group{ID: "manage", Title: "Manage:"},
		&cobra.Group{ID: "tools", Title: "Tools:"},
	)
	root.AddCommand(newUp(), newAgent(), newServer(), newIngester(),
		newGet(), newClusters(), newDiff(), newKeys(), newStore(),
		newConfig(), newPolicy(), newBench())
	root.SetHelpCommandGroupID("tools")
	root.SetCompletionCommandGroupID("tools")
	return root
}

// usageArgs turns the complaint of an argument check into a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return fmt.Errorf("%w: %w; see %s --help", app.ErrUsage, err, cmd.CommandPath())
		}
		return nil
	}
}
