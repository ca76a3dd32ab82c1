// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// RelayOptions configure Relay.
type RelayOptions struct {
	BrokerOptions
	Broker   string // one of Brokers
	Seed     uint64
	Messages int // of one run of one way
	Clients  int
	Runs     int // pairs of them
	Command  string
	Progress *Progress
}

const (
	groupRelay   = "the server of this project"
	groupCeiling = "ceiling: WebSocket and broker alone"

	messagesPerSecond = "messages per second, from the clients until they are acknowledged behind the queue"
)

// relayGoals are messages per second with two cores for clients, server and
// broker; ceilingGoals are parts of the ceiling. With the others the ceiling is far
// away: what the field's encoding adds (base64) is then compressed as well.
var (
	relayGoals   = map[string]*Goal{Embedded: atLeast(25_000), Kafka: atLeast(15_000)}
	ceilingGoals = map[string]*Goal{Embedded: atLeast(.55)}
)

// Relay measures the way from clients through a server and the queue to a
// consumer that acknowledges. In turn with each run of the server the same bytes
// go through a WebSocket and the broker's library alone, which no server can beat
// by much.
func Relay(ctx context.Context, o RelayOptions) (_ *Report, err error) {
	report := &Report{
		Benchmark: fmt.Sprintf("relay, %s, %s", o.Broker, plural(o.Clients, "client")), Command: o.Command, At: time.Now(), Machine: thisMachine(), Runs: o.Runs,
	}
	b, err := o.start(ctx, o.Broker)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	frames, err := putFrames(o.Seed)
	if err != nil {
		return nil, err
	}
	for run := range o.Runs {
		if err := o.pair(ctx, report, b, frames, run); err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", run+1, o.Runs, err)
		}
	}
	total := 0
	for _, frame := range frames {
		total += len(frame)
	}
	report.Notes = append(report.Notes, fmt.Sprintf("%s In each run %s send %s PutObject frames of link v1, %s bytes each on average (bodies of %s bytes, text of generated Deployments, seed %d), as fast as they are read. "+
		"They are prepared beforehand and sent by coder/websocket from another process than the server's. The consumer is in the server's process; it takes up to %d records, acknowledges them and waits for the answer. "+
		"The ceiling is a process with one loop per connection that reads frames with coder/websocket, another one that publishes what has gathered meanwhile, whole, with the broker's library (%s), and the same kind of consumer; no code of this project is in it. "+
		"The ways take turns, and the first of a pair is every time the other one; a ratio is that of a pair. A process lives for one run.",
		b.about, plural(o.Clients, "client"), number(float64(o.Messages)), number(float64(total/len(frames))), number(recordBytes), o.Seed, readAtOnce, b.library))
	return report, nil
}

func (o *RelayOptions) pair(ctx context.Context, report *Report, b *broker, frames [][]byte, run int) error {
	ways := []string{wayRelay, wayCeiling}
	if run%2 == 1 {
		ways[0], ways[1] = ways[1], ways[0]
	}
	groups := map[string]string{wayRelay: groupRelay, wayCeiling: groupCeiling}
	rate, cpu := map[string]float64{}, map[string]float64{}
	for _, way := range ways {
		group := groups[way]
		o.Progress.Start(way, 0)
		m, err := o.measure(ctx, b, way, frames, run)
		o.Progress.Stop()
		if err != nil {
			return fmt.Errorf("%s: %w", group, err)
		}
		rate[way], cpu[way] = float64(o.Messages)/m.took.Seconds(), m.perMessage(m.server+m.broker, o.Messages)
		goal := (*Goal)(nil)
		if way == wayRelay {
			goal = relayGoals[o.Broker]
		}
		report.add(group, messagesPerSecond, "/s", rate[way], goal)
		report.add(group, "CPU time per message, server and consumer"+b.with, "µs", m.perMessage(m.server, o.Messages), nil)
		if b.cpu != nil {
			report.add(group, "CPU time per message, broker", "µs", m.perMessage(m.broker, o.Messages), nil)
		}
		report.add(group, "CPU time per message, clients", "µs", m.perMessage(m.clients, o.Messages), nil)
		report.add(group, "messages read more than once", "", float64(m.repeated), nil)
	}
	report.add(groupCompared, "messages per second, as a part of those of the ceiling", "", rate[wayRelay]/rate[wayCeiling], ceilingGoals[o.Broker])
	report.add(groupCompared, "CPU time per message without clients, as a multiple of that of the ceiling", "", cpu[wayRelay]/cpu[wayCeiling], nil)
	return nil
}

type relayed struct {
	took                    time.Duration
	server, broker, clients time.Duration // CPU
	repeated                int
}

func (m *relayed) perMessage(cpu time.Duration, messages int) float64 {
	return float64(cpu.Nanoseconds()) / 1e3 / float64(messages)
}

// measure starts the server, connects the clients, warms both up, and lets them
// send.
func (o *RelayOptions) measure(ctx context.Context, b *broker, way string, frames [][]byte, run int) (m relayed, err error) {
	r, err := newRig(o.Programs)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	address, err := r.startRelay(ctx, o, b, way, fmt.Sprintf("relay-%d-%s", run, way))
	if err != nil {
		return m, err
	}
	clients, err := dialAll(ctx, address, o.Clients)
	if err != nil {
		return m, err
	}
	defer hangUp(clients)
	if err := sendAll(ctx, clients, frames, warmUp); err != nil {
		return m, fmt.Errorf("warming up: %w", err)
	}
	before, err := r.consumed(ctx, address, warmUp)
	if err != nil {
		return m, err
	}
	own, broker, err := b.usage()
	if err != nil {
		return m, err
	}
	start := time.Now()
	if err := sendAll(ctx, clients, frames, o.Messages); err != nil {
		return m, err
	}
	after, err := r.consumed(ctx, address, warmUp+o.Messages)
	if err != nil {
		return m, err
	}
	m.took, m.server = time.Since(start), after.CPU-before.CPU
	ownAfter, brokerAfter, err := b.usage()
	if err != nil {
		return m, err
	}
	m.clients, m.broker = ownAfter-own, brokerAfter-broker
	m.repeated = after.Messages - warmUp - o.Messages
	if least := o.Messages * recordBytes; after.Bytes-before.Bytes < least {
		return m, fmt.Errorf("%d bytes were read where at least %d were sent", after.Bytes-before.Bytes, least)
	}
	return m, nil
}

// startRelay starts the process and gives its address.
func (r *rig) startRelay(ctx context.Context, o *RelayOptions, b *broker, way, profile string) (address string, err error) {
	if r.backendProfile, err = r.profilePath(profile); err != nil {
		return "", err
	}
	file := filepath.Join(r.dir, "address")
	args := append([]string{"bench", "relay-server", "--queue", o.Broker, "--way", way, "--address-file", file}, b.arguments...)
	if r.backend, err = startProcess(ctx, "server", filepath.Join(r.dir, "server.log"), r.argv(r.backendProfile, args...)...); err != nil {
		return "", err
	}
	var text []byte
	err = await(ctx, r.backend, startTimeout, time.Millisecond, "the server to be ready", func() (bool, error) {
		text, err = os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	})
	return strings.TrimSpace(string(text)), err
}

// consumed waits until at least so many messages are acknowledged.
func (r *rig) consumed(ctx context.Context, address string, least int) (c counted, err error) {
	ctx, cancel := context.WithTimeout(ctx, relayLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s%s?least=%d", address, consumedPath, least), nil)
	if err != nil {
		return c, fmt.Errorf("asking what was read: %w", err)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return c, fmt.Errorf("asking what was read: %w; the end of the server's log:\n%s", err, r.backend.tail())
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&c); err != nil {
		return c, fmt.Errorf("asking what was read: reading the answer (HTTP %d): %w", resp.StatusCode, err)
	}
	return c, nil
}

// relayLimit is how long the server may take for what was sent before.
const relayLimit = 2 * time.Minute
