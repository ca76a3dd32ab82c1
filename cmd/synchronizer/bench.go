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
	cmd.AddCommand(newBenchFirstSync(), newBenchLatency(), newBenchUp(), newBenchRecord(), newBenchProfiled())
	return cmd
}

func newBenchFirstSync() *cobra.Command {
	var f benchFlags
	var settle time.Duration
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
			return f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
				return bench.FirstSync(ctx, bench.FirstSyncOptions{
					Programs: f.Programs, SourceOptions: f.SourceOptions, Runs: f.runs, Settle: settle, Command: command, Progress: bar,
				})
			})
		},
	}
	f.register(cmd, 10000, 3)
	f.registerSource(cmd)
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
	f.register(cmd, 5000, 1)
	f.registerSource(cmd)
	cmd.Flags().Float64Var(&rate, "rate", 10, "changes per second")
	cmd.Flags().DurationVar(&duration, "duration", 10*time.Second, "how long changes are made")
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
	f.register(cmd, 1000, 3)
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

func (f *benchFlags) register(cmd *cobra.Command, objects, runs int) {
	fl := cmd.Flags()
	fl.IntVar(&f.Objects, "objects", objects, "number of Deployments (2.7 KB each)")
	fl.Uint64Var(&f.Seed, "seed", 1, "seed of the generated objects")
	fl.StringVar(&f.Recording, "recording", "", "folder that `bench record` has made: replay it instead of generated objects")
	fl.IntVar(&f.runs, "runs", runs, "number of runs; figures are their median")
	fl.StringVarP(&f.output, "output", "o", "table", strings.Join(bench.Formats, ", "))
	fl.StringVar(&f.document, "document", "", "Markdown file in which the section of this benchmark is replaced")
	completeOutput(cmd, bench.Formats...)
	markDirectory(cmd, "recording")
}

func (f *benchFlags) registerSource(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.Kubeconfig, "kubeconfig", "", "use this real API server instead of the stub")
	fl.StringVar(&f.Client, "client", "", "program of the client (built from cmd/client) instead of `synchronizer agent`")
	fl.StringVar(&f.Profiles, "cpu-profile", "", "folder for CPU and heap profiles; also adds CPU time per stage")
	cmd.MarkFlagsMutuallyExclusive("kubeconfig", "recording")
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
	for _, name := range []string{"objects", "seed", "runs", "rate", "duration", "settle", "idle"} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			line = append(line, "--"+name, flag.Value.String())
		}
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
