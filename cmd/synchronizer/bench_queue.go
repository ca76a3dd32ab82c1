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

func newBenchQueue() *cobra.Command {
	f := benchFlags{SourceOptions: bench.SourceOptions{Objects: 1}}
	var queues []string
	var records int
	cmd := &cobra.Command{
		Use: "queue", Args: usageArgs(cobra.NoArgs),
		Short: "Measure what a queue carries, next to the broker's own library",
		Long: `Publish records of 2 KiB and read and acknowledge them at the same time, in turn
with the adapter of this project and with the broker's own library alone, which is
given the same bytes in calls of the same size.`,
		Example: "  synchronizer bench queue --queue embedded --records 100000",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if records < 1 {
				return fmt.Errorf("%w: --records must be above zero", app.ErrUsage)
			}
			for _, name := range queues {
				if !slices.Contains(bench.Brokers, name) {
					return fmt.Errorf("%w: --queue %q is none of %s", app.ErrUsage, name, strings.Join(bench.Brokers, ", "))
				}
			}
			for _, name := range queues {
				err := f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
					return bench.Queue(ctx, bench.QueueOptions{
						BrokerOptions: bench.BrokerOptions{Programs: f.Programs},
						Broker:        name, Seed: f.Seed, Records: records, Runs: f.runs, Command: command, Progress: bar,
					})
				})
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.registerReport(cmd, 5)
	cmd.Flags().IntVar(&records, "records", 50000, "number of records that each side carries in a run")
	cmd.Flags().StringSliceVar(&queues, "queue", bench.Brokers, "which of "+strings.Join(bench.Brokers, ", "))
	return cmd
}
