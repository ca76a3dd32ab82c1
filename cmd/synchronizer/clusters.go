// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"synchronizer/internal/api"
	"synchronizer/internal/app"
)

func newClusters() *cobra.Command {
	var f fleet
	var output string
	cmd := &cobra.Command{
		Use: "clusters", GroupID: "read", Args: usageArgs(cobra.NoArgs),
		Short:   "List the clusters of the fleet",
		Example: "  synchronizer clusters\n  synchronizer clusters -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return fmt.Errorf("%w: -o %q is neither table nor json", app.ErrUsage, output)
			}
			client, err := f.client()
			if err != nil {
				return err
			}
			list, err := client.Clusters(cmd.Context())
			if err != nil {
				return f.explain(err)
			}
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(api.ClusterList{Items: list})
			}
			return printClusters(cmd, list)
		},
	}
	f.register(cmd)
	cmd.AddCommand(newClustersDelete())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	completeOutput(cmd, "table", "json")
	return cmd
}

func printClusters(cmd *cobra.Command, list []api.Cluster) error {
	if len(list) == 0 {
		cmd.PrintErrln("No clusters yet: none has connected.")
		return nil
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "ACCOUNT\tCLUSTER\tKUBERNETES\tCLIENT\tKINDS\tOBJECTS\tLAST CONNECTED")
	for _, c := range list {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", c.Account, c.Cluster, orDash(c.GitVersion), orDash(c.Version), len(c.Kinds), c.Objects, age(c.LastConnected))
	}
	return w.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// age is how long ago t was, as kubectl writes it.
func age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := max(time.Since(t), 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// completeOutput makes the shell complete -o.
func completeOutput(cmd *cobra.Command, values ...string) {
	err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // only for a flag that does not exist
	}
}
