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

func newBenchEndpoint() *cobra.Command {
	var f benchFlags
	var callers int
	var duration time.Duration
	cmd := &cobra.Command{
		Use: "endpoint --kubeconfig FILE", Args: usageArgs(cobra.NoArgs),
		Short: "Measure the HTTP endpoint, with callers that the API server knows",
		Long: `Let many callers post alerts to the client's HTTP endpoint as fast as they are
answered, each with the token of a service account of its own, and compare what was
accepted with what the backend received. Then measure how long a few callers wait
while the upload of another one stalls. Service accounts and rights are made in a
namespace of their own in the real API server, and removed in the end.`,
		Example: "  synchronizer bench endpoint --kubeconfig FILE --callers 200 --duration 10s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if callers < 1 || duration <= 0 {
				return fmt.Errorf("%w: --callers and --duration must be above zero", app.ErrUsage)
			}
			return f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
				return bench.Endpoint(ctx, bench.EndpointOptions{
					Programs: f.Programs, Kubeconfig: f.Kubeconfig, Callers: callers, Duration: duration, Runs: f.runs, Command: command, Progress: bar,
				})
			})
		},
	}
	f.registerReport(cmd, 1)
	f.registerRealOnly(cmd)
	cmd.Flags().IntVar(&callers, "callers", 200, "number of service accounts that post")
	cmd.Flags().DurationVar(&duration, "duration", 10*time.Second, "how long they post as fast as they can, and again how long a few do")
	return cmd
}

func newBenchApply() *cobra.Command {
	var f benchFlags
	var puts int
	cmd := &cobra.Command{
		Use: "apply --kubeconfig FILE", Args: usageArgs(cobra.NoArgs),
		Short: "Measure how fast what the backend says is written into the cluster",
		Long: `Publish puts of new objects on the backend's queue, and measure the time until all
of them exist in the real API server: ConfigMaps in a namespace of their own, which
is removed in the end. The backend runs in this process, whose queue nobody else
can reach; the client is a process of its own.`,
		Example: "  synchronizer bench apply --kubeconfig FILE --puts 2000",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if puts < 1 {
				return fmt.Errorf("%w: --puts must be above zero", app.ErrUsage)
			}
			return f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
				return bench.Apply(ctx, bench.ApplyOptions{
					Programs: f.Programs, Kubeconfig: f.Kubeconfig, Puts: puts, Runs: f.runs, Command: command, Progress: bar,
				})
			})
		},
	}
	f.registerReport(cmd, 1)
	f.registerRealOnly(cmd)
	cmd.Flags().IntVar(&puts, "puts", 2000, "number of objects that the backend puts")
	return cmd
}

func newBenchReconcile() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use: "reconcile", Args: usageArgs(cobra.NoArgs),
		Short: "Measure a reconciliation that finds nothing",
		Long: `Synchronize all objects, start client and backend again, and let the backend ask
for a reconciliation: a list of all that it knows goes to the client, which compares
it with the cluster. Since nothing differs, no object may be sent.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
				return bench.Reconcile(ctx, bench.ReconcileOptions{
					Programs: f.Programs, SourceOptions: f.SourceOptions, Runs: f.runs, Command: command, Progress: bar,
				})
			})
		},
	}
	f.registerReport(cmd, 1)
	f.registerObjects(cmd, 50000)
	f.registerSource(cmd)
	return cmd
}
