// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/app/server"
)

func newStore() *cobra.Command {
	cmd := &cobra.Command{
		Use: "store", GroupID: "manage", Args: usageArgs(cobra.NoArgs),
		Short: "Look after the database",
		Long: `Look after the database: PostgreSQL at any time, SQLite while no server runs.

It is the one that the configuration of --config or CONFIG names, else that of
` + "`synchronizer up`" + ` in --data-dir.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStoreMigrate(), newStoreCheck(), newStoreStats())
	return cmd
}

// storeFlags say which store is meant.
type storeFlags struct{ server.StoreSettings }

func (f *storeFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.ConfigDir, "config", "", "folder of the server's config.json (default: CONFIG)")
	cmd.Flags().StringVar(&f.DataDir, "data-dir", "", "data directory of synchronizer up (default: that of the configuration, else ./data)")
	markDirectory(cmd, "config")
	markDirectory(cmd, "data-dir")
}

// with opens the store for a command.
func (f *storeFlags) with(cmd *cobra.Command, do func(*server.OpenedStore) error) error {
	store, err := server.OpenStore(cmd.Context(), f.StoreSettings)
	if err != nil {
		return err
	}
	for _, w := range store.Warnings {
		cmd.PrintErrln("Warning: configuration:", w.String())
	}
	return errors.Join(do(store), store.Close())
}

func newStoreMigrate() *cobra.Command {
	f := storeFlags{server.StoreSettings{Migrate: true}}
	cmd := &cobra.Command{
		Use: "migrate", Args: usageArgs(cobra.NoArgs),
		Short: "Make the schema, or bring it to that of this program",
		Long: `Make the schema, or bring it to that of this program. Every process does so at its
start; this is for doing it beforehand. Processes that do it at the same time wait for
each other, and a schema that is newer than this program is refused.`,
		Example: "  synchronizer store migrate --config ./configuration/server-postgres",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(store *server.OpenedStore) error {
				stats, err := store.Stats(cmd.Context())
				if err == nil {
					cmd.Printf("%s has schema version %d.\n", store.Name, stats.SchemaVersion)
				}
				return err
			})
		},
	}
	f.register(cmd)
	return cmd
}

func newStoreCheck() *cobra.Command {
	var f storeFlags
	cmd := &cobra.Command{
		Use: "check", Args: usageArgs(cobra.NoArgs),
		Short: "Compare what is stored twice",
		Long: `Compare what is stored twice: labels, words and set-hashes with the objects that they
stand for, the numbers of kinds, and the positions of the change feeds. All rows are
read, which takes minutes per million of them. Exits with 1 if something does not
agree.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(store *server.OpenedStore) error {
				problems := 0
				err := store.Check(cmd.Context(), func(problem string) {
					problems++
					cmd.Println(problem)
				})
				if err != nil {
					return err
				}
				if problems > 0 {
					return fmt.Errorf("checking %s: %d things do not agree", store.Name, problems)
				}
				cmd.Println("Everything agrees.")
				return nil
			})
		},
	}
	f.register(cmd)
	return cmd
}

func newStoreStats() *cobra.Command {
	var f storeFlags
	var output string
	cmd := &cobra.Command{
		Use: "stats", Args: usageArgs(cobra.NoArgs),
		Short:   "Count what is stored",
		Example: "  synchronizer store stats\n  synchronizer store stats --config ./configuration/server-postgres -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return fmt.Errorf("%w: -o %q is neither table nor json", app.ErrUsage, output)
			}
			return f.with(cmd, func(store *server.OpenedStore) error {
				s, err := store.Stats(cmd.Context())
				if err != nil {
					return err
				}
				if output == "json" {
					return printStatsJSON(cmd, &s)
				}
				return printStats(cmd, store.Name, &s)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	completeOutput(cmd, "table", "json")
	return cmd
}

func printStats(cmd *cobra.Command, name string, s *synchronizer.StoreStats) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 3, ' ', 0)
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, line := range [][2]string{
		{"Database", name},
		{"Engine", s.Engine},
		{"Schema version", number(s.SchemaVersion)},
		{"Accounts", number(s.Accounts)},
		{"Clusters", number(s.Clusters)},
		{"Kinds", number(s.Kinds)},
		{"Connections remembered", number(s.Sources)},
		{"Objects", number(s.Objects)},
		{"Deletions remembered", number(s.Tombstones)},
		{"Events", number(s.Events)},
		{"Changes in the feeds", number(s.Changes)},
		{"Bytes of objects", number(s.BodyBytes)},
		{"Bytes on disk", number(s.Bytes)},
	} {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
	}
	return w.Flush()
}

func printStatsJSON(cmd *cobra.Command, s *synchronizer.StoreStats) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Engine        string `json:"engine"`
		SchemaVersion int64  `json:"schemaVersion"`
		Accounts      int64  `json:"accounts"`
		Clusters      int64  `json:"clusters"`
		Kinds         int64  `json:"kinds"`
		Sources       int64  `json:"sources"`
		Objects       int64  `json:"objects"`
		Tombstones    int64  `json:"tombstones"`
		Events        int64  `json:"events"`
		Changes       int64  `json:"changes"`
		BodyBytes     int64  `json:"bodyBytes"`
		Bytes         int64  `json:"bytes"`
	}{s.Engine, s.SchemaVersion, s.Accounts, s.Clusters, s.Kinds, s.Sources, s.Objects, s.Tombstones, s.Events, s.Changes, s.BodyBytes, s.Bytes})
}

func newClustersDelete() *cobra.Command {
	var f storeFlags
	var yes bool
	cmd := &cobra.Command{
		Use: "delete ACCOUNT CLUSTER", Args: usageArgs(cobra.ExactArgs(2)),
		Short: "Delete everything that is stored of a cluster",
		Long: `Delete everything that is stored of a cluster, in the store itself: PostgreSQL at any
time, SQLite while no server runs. What the connections that it has had still say is
ignored; with its next connection it is there again, so take its client out first.`,
		Example: "  synchronizer clusters delete acme old-cluster --yes --config ./configuration/server-postgres",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				return fmt.Errorf("%w: this deletes all that is stored of %s/%s; add --yes", app.ErrUsage, args[0], args[1])
			}
			return f.with(cmd, func(store *server.OpenedStore) error {
				err := store.DeleteCluster(cmd.Context(), synchronizer.ClusterID{Account: args[0], Cluster: args[1]})
				if err != nil {
					return err
				}
				cmd.Printf("%s/%s is deleted.\n", args[0], args[1])
				return nil
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}
