// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"synchronizer/internal/app"
	"synchronizer/internal/bench"
)

func newBenchQueue() *cobra.Command {
	f := benchFlags{SourceOptions: bench.SourceOptions{Objects: 1}}
	var b brokerFlags
	var records int
	cmd := &cobra.Command{
		Use: "queue", Args: usageArgs(cobra.NoArgs),
		Short: "Measure what a queue carries, next to the broker's own library",
		Long: `Publish records of 2 KiB and read and acknowledge them at the same time, in turn
with the adapter of this project and with the broker's own library alone, which is
given the same bytes in calls of the same size. Brokers but the embedded one are
started by scripts/nats.sh, kafka.sh and pulsar.sh of the project's folder, on free
ports, and removed in the end; or name the address of one that runs.`,
		Example: `  synchronizer bench queue --queue embedded,nats
  synchronizer bench queue --queue kafka --kafka 127.0.0.1:9092`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if records < 1 {
				return fmt.Errorf("%w: --records must be above zero", app.ErrUsage)
			}
			return b.each(cmd, &f, func(ctx context.Context, name, command string, bar *bench.Progress) (*bench.Report, error) {
				return bench.Queue(ctx, bench.QueueOptions{
					BrokerOptions: b.BrokerOptions, Broker: name, Seed: f.Seed, Records: records, Runs: f.runs, Command: command, Progress: bar,
				})
			})
		},
	}
	f.registerReport(cmd, 5)
	b.register(cmd, bench.Brokers)
	cmd.Flags().IntVar(&records, "records", 50000, "number of records that each side carries in a run")
	return cmd
}

func newBenchRelay() *cobra.Command {
	f := benchFlags{SourceOptions: bench.SourceOptions{Objects: 1}}
	var b brokerFlags
	var messages, clients int
	cmd := &cobra.Command{
		Use: "relay", Args: usageArgs(cobra.NoArgs),
		Short: "Measure the way of messages from clients through a server and the queue",
		Long: `Let a few clients send objects of 2 KiB over WebSockets to a server, and measure how
many come out behind the queue, read and acknowledged. In turn with it the same
bytes go through a WebSocket and the broker's own library alone: the ceiling.`,
		Example: "  synchronizer bench relay --queue embedded --messages 100000",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if messages < 1 || clients < 1 {
				return fmt.Errorf("%w: --messages and --clients must be above zero", app.ErrUsage)
			}
			return b.each(cmd, &f, func(ctx context.Context, name, command string, bar *bench.Progress) (*bench.Report, error) {
				return bench.Relay(ctx, bench.RelayOptions{
					BrokerOptions: b.BrokerOptions, Broker: name, Seed: f.Seed, Messages: messages, Clients: clients, Runs: f.runs, Command: command, Progress: bar,
				})
			})
		},
	}
	f.registerReport(cmd, 5)
	f.registerProfiles(cmd)
	b.register(cmd, []string{bench.Embedded, bench.Kafka})
	cmd.Flags().IntVar(&messages, "messages", 50000, "number of messages that all clients together send in a run")
	cmd.Flags().IntVar(&clients, "clients", 4, "number of clients")
	return cmd
}

// newBenchRelayServer is the process that bench relay measures.
func newBenchRelayServer() *cobra.Command {
	var o bench.RelayServerOptions
	cmd := &cobra.Command{
		Use: "relay-server", Hidden: true, Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return bench.RelayServer(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.Broker, "queue", bench.Embedded, "")
	registerAddresses(cmd, &o.BrokerOptions)
	cmd.Flags().StringVar(&o.Way, "way", "", "")
	cmd.Flags().StringVar(&o.Address, "address-file", "", "")
	return cmd
}

// brokerFlags choose brokers.
type brokerFlags struct {
	bench.BrokerOptions
	queues []string
}

func (b *brokerFlags) register(cmd *cobra.Command, all []string) {
	cmd.Flags().StringSliceVar(&b.queues, "queue", all, "which of "+strings.Join(bench.Brokers, ", "))
	registerAddresses(cmd, &b.BrokerOptions)
}

func registerAddresses(cmd *cobra.Command, o *bench.BrokerOptions) {
	o.Addresses = map[string]string{}
	for _, name := range bench.Brokers {
		if name == bench.Embedded {
			continue
		}
		cmd.Flags().Func(name, "HOST:PORT of a broker that runs, instead of one started by scripts/"+name+".sh", func(address string) error {
			o.Addresses[name] = address
			return nil
		})
	}
}

// each measures one broker after the other.
func (b *brokerFlags) each(cmd *cobra.Command, f *benchFlags, run func(ctx context.Context, name, command string, bar *bench.Progress) (*bench.Report, error)) error {
	for _, name := range b.queues {
		if !slices.Contains(bench.Brokers, name) {
			return fmt.Errorf("%w: --queue %q is none of %s", app.ErrUsage, name, strings.Join(bench.Brokers, ", "))
		}
	}
	var missing []error
	for _, name := range b.queues {
		err := f.measure(cmd, func(ctx context.Context, command string, bar *bench.Progress) (*bench.Report, error) {
			b.Programs = f.Programs
			return run(ctx, name, command, bar)
		})
		if errors.Is(err, bench.ErrNoBroker) {
			missing = append(missing, err) // the others can be measured
			continue
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(missing...)
}
