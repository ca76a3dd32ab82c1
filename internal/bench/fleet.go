// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// FleetOptions configure Fleet.
type FleetOptions struct {
	Programs
	Clients  int           // that are connected and idle
	Duration time.Duration // for which they are watched
	Seconds  float64       // for which messages flow, each way
	Ingester bool          // whether the server of idle clients ingests, too
	Runs     int
	Command  string
	Progress *Progress
}

// MostFleet is above the number of clients that Fleet can have: it numbers others
// from there on, and a machine has no more ports.
const MostFleet = 50_000

// FleetSeconds is for how long messages flow if nothing else is asked for.
const FleetSeconds = 3

const (
	groupConnect  = "connecting"
	groupIdlers   = "idle clients"
	groupUp       = "messages of clients"
	groupDown     = "commands for clients"
	groupSilent   = "a client that reads nothing"
	groupReplay   = "replay at its limit"
	busyShare     = 5 // one of so many clients has something to say
	busyRate      = 5 // messages per second of one
	silentOthers  = 50
	fleetOpenMore = 600 // files of a process beside its clients
)

// Fleet measures what many clients cost one server: their connections, what they
// say and what is said to them, one that does not read, and the replay of commands
// for those that are away. The clients are in this process, the server in another.
func Fleet(ctx context.Context, o FleetOptions) (_ *Report, err error) {
	if err := allowFiles(uint64(o.Clients) + fleetOpenMore); err != nil {
		return nil, err
	}
	report := &Report{
		Benchmark: "fleet of " + plural(o.Clients, "client"), Command: o.Command, At: time.Now(), Machine: thisMachine(), Runs: o.Runs,
	}
	if err := o.idle(ctx, report); err != nil {
		return nil, fmt.Errorf("measuring idle clients: %w", err)
	}
	for run := range o.Runs {
		if err := o.connect(ctx, report, run); err != nil {
			return nil, fmt.Errorf("connecting, run %d of %d: %w", run+1, o.Runs, err)
		}
	}
	if err := o.messages(ctx, report); err != nil {
		return nil, fmt.Errorf("measuring latency: %w", err)
	}
	if err := o.silent(ctx, report); err != nil {
		return nil, fmt.Errorf("measuring a client that does not read: %w", err)
	}
	if err := o.replay(ctx, report); err != nil {
		return nil, fmt.Errorf("measuring replay: %w", err)
	}
	beside := "the ingester: a consumer that counts takes its place. With one, new clusters cost the process more a minute after they have come, when the ingester asks each for its first reconciliation"
	if o.Ingester {
		report.Benchmark += ", ingested"
		beside = "the ingester, which it has only while clients are idle: in the other parts a consumer that counts takes its place"
	}
	report.Notes = append(report.Notes,
		"The server is a process wired as `synchronizer server` is, with the embedded queue, but for "+beside+". The clients are in the process of the benchmark, each a WebSocket of its own without TLS that says a Ping when it has connected and then every 50 s, spread evenly.",
		fmt.Sprintf("Connecting counts from the first dial until the consumer has read what the server says of every connection (ServerConnected, confirmed by the queue before the client is let in, and ConnectedClients); %d clients are being connected at a time. "+
			"CPU of idle clients is that of the server's process during %s; memory is looked at in the end.", dialAtOnce, o.Duration),
		fmt.Sprintf("Messages are PutObjects of %s bytes, evenly spread. Their time counts from when they were due, so that waiting for the one before counts as well, until the consumer, or the client, has read them.", number(recordBytes)),
		fmt.Sprintf("With a client that reads nothing, commands go to %d others and as many to that one, as fast as the queue takes them; then the others send as fast as they are read, while commands go to that one. It is compared with the same where that client reads, in turn; a part is that of a pair.", silentOthers),
	)
	return report, nil
}

// fleetRig is a server's process and how to ask it.
type fleetRig struct {
	*rig
	addresses   fleetAddresses
	connections int // so many clients were let in
}

// startFleet starts the server's process.
func (o *FleetOptions) startFleet(ctx context.Context, profile string, ingester bool, replay int64) (_ *fleetRig, err error) {
	r, err := newRig(o.Programs)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.backendProfile, err = r.profilePath("fleet-" + profile); err != nil {
		return nil, err
	}
	file := filepath.Join(r.dir, "addresses")
	argv := r.argv(r.backendProfile, "bench", "fleet-server", "--dir", r.dir, "--address-file", file,
		"--ingester="+strconv.FormatBool(ingester), "--replay", strconv.FormatInt(replay, 10))
	if r.backend, err = startProcess(ctx, "server", filepath.Join(r.dir, "server.log"), argv...); err != nil {
		return nil, err
	}
	var text []byte
	err = await(ctx, r.backend, startTimeout, time.Millisecond, "the server to be ready", func() (bool, error) {
		text, err = os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, err
	}
	f := &fleetRig{rig: r}
	if err := json.Unmarshal(text, &f.addresses); err != nil {
		return nil, fmt.Errorf("reading the addresses of the server: %w", err)
	}
	return f, nil
}

// ask puts a question to the server's process; body may be nil.
func (r *fleetRig) ask(ctx context.Context, path string, query url.Values, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, relayLimit)
	defer cancel()
	address := url.URL{Scheme: "http", Host: r.addresses.Control, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("asking the server for %s: %w", path, err)
	}
	// The query is in the address: a form would be looked for in the body.
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.http.Do(req)
	if err != nil {
		return fmt.Errorf("asking the server for %s: %w; the end of its log:\n%s", path, err, r.backend.tail())
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		message, _ := io.ReadAll(io.LimitReader(resp.Body, logTail))
		return fmt.Errorf("asking the server for %s: HTTP %d: %s", path, resp.StatusCode, message)
	}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("asking the server for %s: reading the answer: %w", path, err)
	}
	return nil
}

// letIn waits until the consumer has read what is said of n more clients; from then
// on they get commands.
func (r *fleetRig) letIn(ctx context.Context, n int) error {
	r.connections += n
	_, err := r.counts(ctx, 0)
	return err
}

// counts waits until so many messages have come out of the queue.
func (r *fleetRig) counts(ctx context.Context, messages int) (c fleetCounts, err error) {
	n := strconv.Itoa(r.connections)
	err = r.ask(ctx, countsPath, url.Values{"connected": {n}, "announced": {n}, "messages": {strconv.Itoa(messages)}}, nil, &c)
	return c, err
}

func (r *fleetRig) command(ctx context.Context, c fleetCommands) error {
	return r.ask(ctx, commandsPath, nil, c, &struct{}{})
}

func (r *fleetRig) memory(ctx context.Context) (h fleetHeap, err error) {
	err = r.ask(ctx, memoryPath, nil, nil, &h)
	return h, err
}
