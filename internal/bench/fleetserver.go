// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/internal/queue"
	"synchronizer/internal/telemetry"
)

// FleetServerOptions configure FleetServer.
type FleetServerOptions struct {
	Dir      string // of its data
	Address  string // file that gets the addresses of the server when it is ready
	Ingester bool   // whether it ingests what clients say, into SQLite
	Replay   int64  // backend.replay.maxBytes; 0: replay is off
}

// fleetAddresses is what is in the file.
type fleetAddresses struct{ Clients, Control string }

// Paths of the server's control address.
const (
	countsPath    = "/bench/counts"
	latenciesPath = "/bench/latencies"
	memoryPath    = "/bench/memory"
	commandsPath  = "/bench/commands"
)

// FleetServer is the process that Fleet connects its clients to: a server as
// `synchronizer server` wires it, with the embedded queue, and beside it a consumer
// that counts what comes out of the queue, and a producer of commands for clients.
// It runs until ctx ends.
func FleetServer(ctx context.Context, o FleetServerOptions) error {
	p := app.NewProcess(os.Stderr)
	c, err := fleetConfig(o)
	if err != nil {
		return err
	}
	b, err := server.Open(ctx, p, c)
	if err != nil {
		return err
	}
	consumer, err := b.Queue().Consume(ctx, benchGroup)
	if err != nil {
		return errors.Join(err, b.Close())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(fmt.Errorf("listening for questions: %w", err), b.Close())
	}
	tally := &fleetTally{changed: make(chan struct{})}
	g, running := errgroup.WithContext(ctx)
	// The queue closes with the server, and what reads from it or writes to it must
	// have ended by then.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error {
		defer stop()
		defer func() { _ = consumer.Close() }() // nothing is to be saved
		return tally.read(running, consumer)
	})
	g.Go(func() error { return b.Run(serving) })
	g.Go(func() error {
		return telemetry.Serve(running, l, fleetControl(tally, b.Queue()), time.Second)
	})
	g.Go(func() error {
		for b.Ready() != nil {
			if err := wait(running, time.Millisecond); err != nil {
				return nil //nolint:nilerr // what ended it says why
			}
		}
		text, err := json.Marshal(fleetAddresses{Clients: b.ClientsAddress(), Control: l.Addr().String()})
		if err != nil {
			return err
		}
		// Whoever waits for the file must not see half of it.
		if err := os.WriteFile(o.Address+".new", text, 0o600); err != nil {
			return err
		}
		return os.Rename(o.Address+".new", o.Address)
	})
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// fleetConfig is a server's on free ports, that lets everybody in.
func fleetConfig(o FleetServerOptions) (*config.Config, error) {
	var env config.Env
	for name, value := range map[string]string{
		"SYNCHRONIZER_BACKEND_DATADIR": filepath.Join(o.Dir, "data"), "SYNCHRONIZER_BACKEND_LISTEN": "127.0.0.1:0",
		"SYNCHRONIZER_API_LISTEN": "127.0.0.1:0", "SYNCHRONIZER_BACKEND_HEALTHPORT": "0",
	} {
		env = env.With(name, value)
	}
	c, _, err := config.LoadUp(env)
	if err != nil {
		return nil, err
	}
	c.Ingester.Enabled = &o.Ingester
	if o.Replay > 0 {
		// Only the bytes shall bound it.
		c.Backend.Replay.Enabled, c.Backend.Replay.MaxBytes = true, o.Replay
		c.Backend.Replay.MaxMessages, c.Backend.Replay.MaxMessagesPerClient = 1_000_000, 1_000_000
	}
	return c, nil
}

// fleetControl answers the questions of Fleet.
func fleetControl(tally *fleetTally, q synchronizer.Queue) http.Handler {
	mux := http.NewServeMux()
	answer := func(path string, handle func(r *http.Request) (any, error)) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			value, err := handle(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_ = json.NewEncoder(w).Encode(value) // who asked sees it
		})
	}
	answer(countsPath, tally.atLeast)
	answer(latenciesPath, func(*http.Request) (any, error) { return tally.takeLatencies(), nil })
	answer(memoryPath, func(*http.Request) (any, error) { return heapNow(), nil })
	answer(commandsPath, func(r *http.Request) (any, error) {
		var c fleetCommands
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			return nil, err
		}
		return struct{}{}, c.publish(r.Context(), q)
	})
	mux.Handle("/debug/", telemetry.ProfilerHandler())
	return mux
}

// fleetHeap is what the process holds after a collection.
type fleetHeap struct {
	Live, Stacks int64 // bytes
	Goroutines   int
}

func heapNow() fleetHeap {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools held goes with the second one
	runtime.ReadMemStats(&m)
	return fleetHeap{Live: int64(m.HeapAlloc), Stacks: int64(m.StackInuse), Goroutines: runtime.NumGoroutine()}
}

// fleetCounts are records that came out of the queue.
type fleetCounts struct {
	Connected, Announced, Messages int
	CPU                            time.Duration // of the process
}

// fleetTally counts what the consumer reads.
type fleetTally struct {
	mu        sync.Mutex
	counts    fleetCounts
	latencies []time.Duration
	changed   chan struct{} // closed and replaced
}

func (t *fleetTally) read(ctx context.Context, consumer synchronizer.Consumer) error {
	for {
		batch, err := consumer.Next(ctx, readAtOnce, readBytes)
		if err == nil {
			t.add(batch.Records)
			err = batch.Ack(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading what was relayed: %w", err)
		}
	}
}

func (t *fleetTally) add(records []synchronizer.Record) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range records {
		switch r := &records[i]; r.Property(queue.PropertyEvent) {
		case synchronizer.EventServerConnected.String():
			t.counts.Connected++
		case synchronizer.EventConnectedClients.String():
			t.counts.Announced++
		case synchronizer.EventPut.String():
			t.counts.Messages++
			if sent, ok := readStamp(r.Payload); ok {
				t.latencies = append(t.latencies, now.Sub(sent))
			}
		}
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// atLeast answers when so many records have come.
func (t *fleetTally) atLeast(r *http.Request) (any, error) {
	var least fleetCounts
	for name, into := range map[string]*int{"connected": &least.Connected, "announced": &least.Announced, "messages": &least.Messages} {
		if text := r.FormValue(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, err
			}
			*into = n
		}
	}
	for {
		t.mu.Lock()
		c, changed := t.counts, t.changed
		t.mu.Unlock()
		if c.Connected >= least.Connected && c.Announced >= least.Announced && c.Messages >= least.Messages {
			var err error
			c.CPU, err = ownCPU()
			return c, err
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
}

// takeLatencies gives what there is since it was last asked for.
func (t *fleetTally) takeLatencies() fleetLatencies {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := summarize(t.latencies)
	t.latencies = t.latencies[:0]
	return l
}
