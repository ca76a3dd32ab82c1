// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"synchronizer/internal/app"
	"synchronizer/internal/bench"
)

func newBenchFleet() *cobra.Command {
	f := benchFlags{SourceOptions: bench.SourceOptions{Objects: 1}}
	var o bench.FleetOptions
	cmd := &cobra.Command{
		Use: "fleet", Args: usageArgs(cobra.NoArgs),
		Short: "Measure what many clients cost one server",
		Long: `Connect many clients to a server in another process, and measure the memory and CPU
that they cost while they are idle, how fast they are let in, how long messages take
in both directions when a fifth of them speak, what a client that reads nothing costs
the others, and the memory of the replay. Every client needs an open file in both
processes (ulimit -n). With the defaults it takes less than four minutes.`,
		Example: `  synchronizer bench fleet
  synchronizer bench fleet --clients 1000 --duration 10s --runs 1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Clients < 1 || o.Clients >= bench.MostFleet || o.Seconds <= 0 || o.Duration <= 0 {
				return fmt.Errorf("%w: --clients must be above zero and below %d, --seconds and --duration above zero", app.ErrUsage, bench.MostFleet)
			}
			return f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
				o.Programs, o.Runs, o.Command, o.Progress = f.Programs, f.runs, command, bar
				return bench.Fleet(ctx, o)
			})
		},
	}
	f.registerReport(cmd, 5)
	f.registerProfiles(cmd)
	cmd.Flags().IntVar(&o.Clients, "clients", 10000, "number of clients that are connected")
	cmd.Flags().BoolVar(&o.Ingester, "ingest", false, "also ingest, while clients are idle, what the server says of them")
	cmd.Flags().DurationVar(&o.Duration, "duration", time.Minute, "how long idle clients are watched")
	cmd.Flags().Float64Var(&o.Seconds, "seconds", bench.FleetSeconds, "how long messages flow in each run and direction; below the default, the other parts become smaller, too")
	return cmd
}

// newBenchFleetServer is the process that bench fleet measures.
func newBenchFleetServer() *cobra.Command {
	var o bench.FleetServerOptions
	cmd := &cobra.Command{
		Use: "fleet-server", Hidden: true, Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return bench.FleetServer(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "", "")
	cmd.Flags().StringVar(&o.Address, "address-file", "", "")
	cmd.Flags().BoolVar(&o.Ingester, "ingester", true, "")
	cmd.Flags().Int64Var(&o.Replay, "replay", 0, "")
	return cmd
}
