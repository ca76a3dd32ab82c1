// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/chunk"
	"synchronizer/internal/queue/kafka"
	"synchronizer/internal/queue/nats"
	"synchronizer/internal/queue/pulsar"
)

// ErrNoBroker means that a broker cannot be started on this machine.
var ErrNoBroker = errors.New("broker not started")

// startExternal starts a broker with the script that people use, or takes the one
// at an address that was named.
func (o *BrokerOptions) startExternal(ctx context.Context, name string) (*broker, error) {
	address, stop, cpu := o.Addresses[name], func() error { return nil }, (func() (time.Duration, error))(nil)
	about := "The broker was started by somebody else."
	if address == "" {
		var err error
		if address, stop, cpu, err = runScript(ctx, name); err != nil {
			return nil, err
		}
		about = fmt.Sprintf("The broker is a process of its own on the same cores, started by scripts/%s.sh.", name)
	}
	b := external(name, address)
	b.about, b.stop, b.cpu, b.arguments = about, stop, cpu, []string{"--" + name, address}
	return b, nil
}

// external is how a broker at an address is used, as internal/app/server does.
func external(name, address string) *broker {
	switch name {
	case NATS:
		url := "nats://" + address
		return &broker{
			encoding: queue.Compact,
			library:  "nats.go with asynchronous publishing and a pull consumer on a stream of its own",
			open: func(ctx context.Context) (synchronizer.Queue, error) {
				q, err := nats.Open(ctx, nats.Config{URLs: []string{url}, Prefix: "bench", Logger: quiet()})
				if err != nil {
					return nil, err
				}
				return chunk.New(q, chunk.Options{MaxRecord: q.MaxPayload(), Drop: ignore, Logger: quiet()}), nil
			},
			raw: func(ctx context.Context, records []synchronizer.Record) (side, error) {
				connect := func() (*natsgo.Conn, error) { return natsgo.Connect(url) }
				return newRawNATS(ctx, connect, records, func() error { return nil })
			},
		}
	case Kafka:
		return &broker{
			encoding: queue.Field,
			library:  "franz-go with an idempotent producer, zstd, and a group that commits, on a topic of its own with as many partitions",
			open: func(ctx context.Context) (synchronizer.Queue, error) {
				q, err := kafka.Open(ctx, kafka.Config{BootstrapServers: []string{address}, OutTopic: "bench-out", InTopic: "bench-in", Logger: quiet()})
				if err != nil {
					return nil, err
				}
				return chunk.New(q, chunk.Options{MaxRecord: 64 << 20, Drop: ignore, Logger: quiet()}), nil
			},
			raw: func(ctx context.Context, records []synchronizer.Record) (side, error) {
				return newRawKafka(ctx, address, records)
			},
		}
	default:
		url := "pulsar://" + address
		return &broker{
			encoding: queue.Field,
			library:  "pulsar-client-go with a producer that batches by key, zstd, and a Key_Shared subscription, on a topic of its own",
			open: func(ctx context.Context) (synchronizer.Queue, error) {
				return pulsar.Open(ctx, pulsar.Config{URL: url, OutTopic: "bench-out", InTopic: "bench-in", Logger: quiet()})
			},
			raw: func(ctx context.Context, records []synchronizer.Record) (side, error) {
				return newRawPulsar(ctx, url, records)
			},
		}
	}
}

func ignore(synchronizer.DropReason, string) {}

// runScript starts a broker on a free port, with data of its own that stop removes.
func runScript(ctx context.Context, name string) (address string, stop func() error, cpu func() (time.Duration, error), err error) {
	script := filepath.Join("scripts", name+".sh")
	if _, err := os.Stat(script); err != nil {
		return "", nil, nil, fmt.Errorf("%w: %s: there is no %s here; run the benchmark in the project's folder, or name a running one with --%s HOST:PORT",
			ErrNoBroker, name, script, name)
	}
	port, err := freePorts()
	if err != nil {
		return "", nil, nil, err
	}
	run := func(ctx context.Context, verb string) error {
		cmd := exec.CommandContext(ctx, script, verb, "--port", strconv.Itoa(port))
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", script, verb, err, bytes.TrimSpace(said.Bytes()[max(0, said.Len()-logTail):]))
		}
		return nil
	}
	data, err := brokerData(name, port)
	if err != nil {
		return "", nil, nil, err
	}
	stop = func() error {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*stopTimeout)
		defer cancel()
		return errors.Join(run(stopping, "stop"), os.RemoveAll(data))
	}
	if err := run(ctx, "start"); err != nil {
		return "", nil, nil, errors.Join(fmt.Errorf("%w: %w", ErrNoBroker, err), stop())
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), stop, cpuOfPIDFile(filepath.Join(data, "pid")), nil
}

// brokerData is where a script keeps the data of a port.
func brokerData(name string, port int) (string, error) {
	cache := os.Getenv("SYNCHRONIZER_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding the data of the broker: %w", err)
		}
		cache = filepath.Join(dir, "synchronizer")
	}
	return filepath.Join(cache, "brokers", name, "broker-"+strconv.Itoa(port)), nil
}

// cpuOfPIDFile is the CPU time of the process; nil if the broker runs in a container.
func cpuOfPIDFile(path string) func() (time.Duration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil
	}
	return func() (time.Duration, error) {
		u, err := usageOf(pid)
		return u.CPU, err
	}
}

// freePorts gives a port that is free now together with the two behind it, which
// some brokers take too.
func freePorts() (int, error) {
	for range 100 {
		port, err := threeFree()
		if err != nil || port > 0 {
			return port, err
		}
	}
	return 0, errors.New("finding three free ports in a row: none after 100 tries")
}

// threeFree gives 0 if those behind the first are not free.
func threeFree() (int, error) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer func() { _ = first.Close() }()
	port := first.Addr().(*net.TCPAddr).Port
	for _, next := range []int{port + 1, port + 2} {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(next)))
		if err != nil {
			return 0, nil //nolint:nilerr // taken
		}
		_ = l.Close()
	}
	return port, nil
}
