// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"synchronizer/internal/app"
	"synchronizer/internal/bench"
)

// benchFlags are the flags that the benchmarks share.
type benchFlags struct {
	bench.SourceOptions
	bench.Programs
	runs             int
	output, document string
}

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", GroupID: "tools", Short: "Measure speed and memory on this machine",
		Long: `Measure speed and memory on this machine. Backend and client are started as
processes of their own, on free ports and in a temporary folder; Ctrl-C ends and
removes everything.`,
		Example: `  synchronizer bench first-sync --objects 20000 --runs 3
  synchronizer bench latency --rate 10 --duration 10s
  synchronizer bench up`,
	}
	cmd.AddCommand(newBenchFirstSync(), newBenchLatency(), newBenchHotObject(), newBenchIdle(), newBenchUp(), newBenchEndpoint(), newBenchApply(), newBenchReconcile(), newBenchQueue(), newBenchRelay(), newBenchIngest(), newBenchFleet(), newBenchRelayServer(), newBenchFleetServer(), newBenchRecord(), newBenchProfiled())
	return cmd
}

func newBenchFirstSync() *cobra.Command {
	var f benchFlags
	var settle time.Duration
	var strategy string
	cmd := &cobra.Command{
		Use: "first-sync", Args: usageArgs(cobra.NoArgs),
		Short: "Measure the first synchronization of a cluster",
		Long: `Measure how long all Deployments of a cluster take from the start of the client
until they are committed rows, what that costs both processes, and that a second
start of the client sends no object again.

The API server is a stub that replays LIST pages from memory. With --kubeconfig it
is a real one, in which the Deployments are made first, in a namespace of their own
and without replicas, and removed in the end.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strategy != "" && !slices.Contains(bench.Strategies, strategy) {
				return fmt.Errorf("%w: --strategy %q is none of %s", app.ErrUsage, strategy, strings.Join(bench.Strategies, ", "))
			}
			return f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
				return bench.FirstSync(ctx, bench.FirstSyncOptions{
					Programs: f.Programs, SourceOptions: f.SourceOptions, Runs: f.runs, Strategy: strategy, Settle: settle, Command: command, Progress: bar,
				})
			})
		},
	}
	f.registerReport(cmd, 3)
	f.registerObjects(cmd, 10000)
	f.registerSource(cmd)
	f.registerProfiles(cmd)
	cmd.Flags().StringVar(&strategy, "strategy", "", "what the client sends of a change, copy or patch (default: patch; from 100,000 objects on copy)")
	if err := cmd.RegisterFlagCompletionFunc("strategy", cobra.FixedCompletions(bench.Strategies, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // only for a flag that does not exist
	}
	cmd.Flags().DurationVar(&settle, "settle", 5*time.Second, "time until memory is looked at again")
	return cmd
}

func newBenchLatency() *cobra.Command {
	var f benchFlags
	var rate float64
	var duration time.Duration
	cmd := &cobra.Command{
		Use: "latency", Args: usageArgs(cobra.NoArgs),
		Short: "Measure the time from a change to its committed row",
		Long: `Measure, on a synchronized system, the time from a change to the committed row, as
another process can read it. A change counts from when the stub API server gives it
to the watch, or from when the real one (--kubeconfig) has answered the patch.`,
		Example: `  synchronizer bench latency --rate 10 --duration 10s     # an idle system
  synchronizer bench latency --rate 1000 --duration 10s`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rate <= 0 || duration <= 0 {
				return fmt.Errorf("%w: --rate and --duration must be above zero", app.ErrUsage)
			}
			return f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
				return bench.Latency(ctx, bench.LatencyOptions{
					Programs: f.Programs, SourceOptions: f.SourceOptions, Rate: rate, Duration: duration, Runs: f.runs, Command: command, Progress: bar,
				})
			})
		},
	}
	f.registerReport(cmd, 1)
	f.registerObjects(cmd, 5000)
	f.registerSource(cmd)
	f.registerProfiles(cmd)
	cmd.Flags().Float64Var(&rate, "rate", 10, "changes per second")
	cmd.Flags().DurationVar(&duration, "duration", 10*time.Second, "how long changes are made")
	return cmd
}

func newBenchHotObject() *cobra.Command {
	f := benchFlags{SourceOptions: bench.SourceOptions{Objects: 1}}
	var changes int
	var duration time.Duration
	cmd := &cobra.Command{
		Use: "hot-object", Args: usageArgs(cobra.NoArgs),
		Short: "Measure what one object costs that changes all the time",
		Long: `Change one object of a synchronized system many times, evenly over the duration.
The client must send few of the states, and the last one must be stored.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if changes < 1 || duration <= 0 {
				return fmt.Errorf("%w: --changes and --duration must be above zero", app.ErrUsage)
			}
			return f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
				return bench.HotObject(ctx, bench.HotObjectOptions{
					Programs: f.Programs, SourceOptions: f.SourceOptions, Changes: changes, Duration: duration, Runs: f.runs, Command: command, Progress: bar,
				})
			})
		},
	}
	f.registerReport(cmd, 1)
	f.registerSource(cmd)
	cmd.Flags().IntVar(&changes, "changes", 1000, "number of changes")
	cmd.Flags().DurationVar(&duration, "duration", 10*time.Second, "how long changes are made")
	return cmd
}

func newBenchIdle() *cobra.Command {
	var f benchFlags
	var o bench.IdleOptions
	cmd := &cobra.Command{
		Use: "idle", Args: usageArgs(cobra.NoArgs),
		Short: "Measure what a client costs when nothing happens",
		Long: `Measure CPU time, requests to the API server and memory of a client that is
configured with many kinds, some of which the API server does not have. With
--kubeconfig all namespaces of the real cluster are synchronized into a temporary
folder; nothing else should happen in it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Duration <= 0 {
				return fmt.Errorf("%w: --duration must be above zero", app.ErrUsage)
			}
			if err := o.CheckKinds(); err != nil {
				return fmt.Errorf("%w: --kinds and --absent: %w", app.ErrUsage, err)
			}
			return f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
				o.Programs, o.SourceOptions, o.Runs, o.Command, o.Progress = f.Programs, f.SourceOptions, f.runs, command, bar
				return bench.Idle(ctx, o)
			})
		},
	}
	f.registerReport(cmd, 1)
	f.registerObjects(cmd, 1000)
	f.registerSource(cmd)
	fl := cmd.Flags()
	fl.IntVar(&o.Kinds, "kinds", 40, "number of kinds that the client is configured with")
	fl.IntVar(&o.Absent, "absent", 15, "how many of them the API server does not have")
	fl.DurationVar(&o.Settle, "settle", 10*time.Second, "time from when everything is stored until it is measured")
	fl.DurationVar(&o.Duration, "duration", time.Minute, "how long it is measured")
	return cmd
}

func newBenchUp() *cobra.Command {
	var f benchFlags
	var idle time.Duration
	cmd := &cobra.Command{
		Use: "up", Args: usageArgs(cobra.NoArgs),
		Short: "Measure start and idle memory of `synchronizer up`",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
				return bench.Up(ctx, bench.UpOptions{
					Programs: f.Programs, SourceOptions: f.SourceOptions, Runs: f.runs, Idle: idle, Command: command, Progress: bar,
				})
			})
		},
	}
	f.registerReport(cmd, 3)
	f.registerObjects(cmd, 1000)
	cmd.Flags().DurationVar(&idle, "idle", 10*time.Second, "time from ready until memory is looked at")
	return cmd
}

func newBenchRecord() *cobra.Command {
	var o bench.SourceOptions
	cmd := &cobra.Command{
		Use: "record FOLDER", Args: usageArgs(cobra.ExactArgs(1)),
		Short: "Record what a real API server answers, for --recording",
		Long: `Make Deployments in a real API server, keep its answer to a LIST of all Deployments
page by page in a folder, and remove them. The recording also holds the other
Deployments of the cluster: use one without secrets in them.`,
		Example: "  synchronizer bench record ./recording --kubeconfig FILE --objects 20000",
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := bench.Record(cmd.Context(), o, args[0], progress())
			if err == nil {
				cmd.Printf("%s: %s.\n", args[0], data)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of the API server")
	cmd.Flags().IntVar(&o.Objects, "objects", 10000, "number of Deployments to make")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of the generated objects")
	if err := cmd.MarkFlagRequired("kubeconfig"); err != nil {
		panic(err) // only for a flag that does not exist
	}
	return cmd
}

// newBenchProfiled runs a command of this program under the CPU profiler; the
// benchmarks start their processes with it.
func newBenchProfiled() *cobra.Command {
	return &cobra.Command{
		Use: "profiled FILE -- COMMAND...", Hidden: true, Args: usageArgs(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.Profiled(args[0], func() error {
				root := newRoot()
				root.SetArgs(args[1:])
				root.SetOut(cmd.OutOrStdout())
				return root.ExecuteContext(cmd.Context())
			})
		},
	}
}

// registerRealOnly is registerSource for what needs a real API server.
func (f *benchFlags) registerRealOnly(cmd *cobra.Command) {
	f.Objects = 1 // none are made
	cmd.Flags().StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of the API server")
	cmd.Flags().StringVar(&f.Client, "client", "", clientUsage)
	if err := cmd.MarkFlagRequired("kubeconfig"); err != nil {
		panic(err) // only for a flag that does not exist
	}
}

const clientUsage = "program of the client (built from cmd/client) instead of `synchronizer agent`"

func (f *benchFlags) registerReport(cmd *cobra.Command, runs int) {
	fl := cmd.Flags()
	fl.Uint64Var(&f.Seed, "seed", 1, "seed of the generated objects")
	fl.IntVar(&f.runs, "runs", runs, "number of runs; figures are their median")
	fl.StringVarP(&f.output, "output", "o", "table", strings.Join(bench.Formats, ", "))
	fl.StringVar(&f.document, "document", "", "Markdown file in which the section of this benchmark is replaced")
	completeOutput(cmd, bench.Formats...)
}

func (f *benchFlags) registerObjects(cmd *cobra.Command, objects int) {
	fl := cmd.Flags()
	fl.IntVar(&f.Objects, "objects", objects, "number of Deployments (2.7 KB each)")
	fl.StringVar(&f.Recording, "recording", "", "folder that `bench record` has made: replay it instead of generated objects")
	markDirectory(cmd, "recording")
}

// registerSource comes after registerObjects.
func (f *benchFlags) registerSource(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.Kubeconfig, "kubeconfig", "", "use this real API server instead of the stub")
	fl.StringVar(&f.Client, "client", "", clientUsage)
	if fl.Lookup("recording") != nil {
		cmd.MarkFlagsMutuallyExclusive("kubeconfig", "recording")
	}
}

func (f *benchFlags) registerProfiles(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Profiles, "cpu-profile", "", "folder for CPU and heap profiles; also adds CPU time per stage")
	markDirectory(cmd, "cpu-profile")
}

// measure checks the flags, runs a benchmark and writes its report.
func (f *benchFlags) measure(cmd *cobra.Command, run func(context.Context, string, *bench.Progress) (*bench.Report, error)) error {
	if !slices.Contains(bench.Formats, f.output) {
		return fmt.Errorf("%w: -o %q is none of %s", app.ErrUsage, f.output, strings.Join(bench.Formats, ", "))
	}
	if f.Objects < 1 || f.runs < 1 {
		return fmt.Errorf("%w: --objects and --runs must be above zero", app.ErrUsage)
	}
	var err error
	if f.Synchronizer, err = os.Executable(); err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	if f.Client != "" {
		if f.Client, err = filepath.Abs(f.Client); err != nil {
			return fmt.Errorf("finding the client's program: %w", err)
		}
	}
	report, err := run(cmd.Context(), commandLine(cmd), progress())
	if err != nil && cmd.Context().Err() != nil {
		// Whatever failed then failed because it was told to stop.
		return fmt.Errorf("interrupted: %w", context.Cause(cmd.Context()))
	}
	if err != nil {
		return err
	}
	if f.document != "" {
		if err := report.WriteDocument(f.document); err != nil {
			return err
		}
	}
	return report.Write(cmd.OutOrStdout(), f.output)
}

// commandLine is the command with those flags that were given and change what is
// measured; paths, which are of this machine, are left out.
func commandLine(cmd *cobra.Command) string {
	line := []string{cmd.CommandPath()}
	for _, name := range []string{"objects", "seed", "runs", "rate", "changes", "callers", "puts", "records", "messages", "clients", "kinds", "absent", "duration", "seconds", "ingest", "strategy", "settle", "idle"} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			line = append(line, "--"+name)
			if flag.Value.Type() != "bool" {
				line = append(line, flag.Value.String())
			}
		}
	}
	if queues, err := cmd.Flags().GetStringSlice("queue"); err == nil && cmd.Flags().Changed("queue") {
		line = append(line, "--queue", strings.Join(queues, ","))
	}
	for _, path := range [][2]string{{"kubeconfig", "FILE"}, {"recording", "FOLDER"}, {"client", "PROGRAM"}, {"cpu-profile", "FOLDER"}} {
		if flag := cmd.Flags().Lookup(path[0]); flag != nil && flag.Changed {
			line = append(line, "--"+path[0], path[1])
		}
	}
	return strings.Join(line, " ")
}

// progress is a line on stderr if that is a terminal.
func progress() *bench.Progress {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return bench.NewProgress(os.Stderr)
}
