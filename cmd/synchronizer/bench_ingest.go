// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"synchronizer/internal/app"
	"synchronizer/internal/bench"
)

func newBenchIngest() *cobra.Command {
	var f benchFlags
	var o bench.IngestOptions
	var stores []string
	cmd := &cobra.Command{
		Use: "ingest", Args: usageArgs(cobra.NoArgs),
		Short: "Measure the ingester and a database, next to the database's own library",
		Long: `Publish records of objects on the embedded queue and ingest them at the same time:
objects that are new, then a new state of each, then the same again. In turn with each
run the rows that they become are written with the database's own library alone.
Then a large database is filled, and read by each of its indexes.

PostgreSQL is started in a temporary folder; --postgres names a server that runs, in
which databases are made and dropped.`,
		Example: `  synchronizer bench ingest --store sqlite --objects 20000
  synchronizer bench ingest --rows 0                          # no reading
  synchronizer bench ingest --postgres postgres://postgres@127.0.0.1:5432/postgres`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range stores {
				if !slices.Contains(bench.Stores, name) {
					return fmt.Errorf("%w: --store %q is none of %s", app.ErrUsage, name, strings.Join(bench.Stores, ", "))
				}
			}
			if o.Workers < 1 || o.Rows < 0 {
				return fmt.Errorf("%w: --workers must be above zero and --rows not below", app.ErrUsage)
			}
			for _, name := range stores {
				err := f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
					o.Store, o.Seed, o.Objects, o.Runs, o.Profiles, o.Command, o.Progress = name, f.Seed, f.Objects, f.runs, f.Profiles, command, bar
					return bench.Ingest(ctx, o)
				})
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.registerReport(cmd, 5)
	f.registerProfiles(cmd)
	fl := cmd.Flags()
	fl.IntVar(&f.Objects, "objects", 20000, "number of Deployments (2.7 KB each) of a run")
	fl.IntVar(&o.Rows, "rows", 450000, "rows of the database that is read; 0: reading is not measured")
	fl.IntVar(&o.Workers, "workers", 1, "transactions of the ingester that may run at once")
	fl.StringSliceVar(&stores, "store", bench.Stores, "which of "+strings.Join(bench.Stores, ", "))
	fl.StringVar(&o.URL, "postgres", "", "URL of a PostgreSQL server to use")
	return cmd
}
