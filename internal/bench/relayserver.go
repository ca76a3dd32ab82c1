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
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"synchronizer"
	"synchronizer/internal/link"
	"synchronizer/internal/queue"
	"synchronizer/internal/relay"
)

// The ways from clients to an acknowledging consumer that are compared.
const (
	wayRelay   = "relay"
	wayCeiling = "ceiling"
)

// RelayServerOptions configure RelayServer.
type RelayServerOptions struct {
	BrokerOptions
	Broker  string
	Way     string // relay or ceiling
	Address string // file that gets the address of the server when it is ready
}

const (
	consumedPath = "/bench/consumed"
	// relayUpward is what a connection of the server may have read and not published.
	relayUpward = 4 << 20
)

// counted is what the consumer of a server has read so far, and what the process
// has used.
type counted struct {
	Messages, Bytes int
	CPU             time.Duration
}

// relayTally counts what a consumer reads.
type relayTally struct {
	mu              sync.Mutex
	messages, bytes int
	changed         chan struct{} // closed and replaced
}

func (t *relayTally) add(messages, bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages, t.bytes = t.messages+messages, t.bytes+bytes
	close(t.changed)
	t.changed = make(chan struct{})
}

// ServeHTTP answers when at least so many messages were read.
func (t *relayTally) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	least, err := strconv.Atoi(r.FormValue("least"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for {
		t.mu.Lock()
		c, changed := counted{Messages: t.messages, Bytes: t.bytes}, t.changed
		t.mu.Unlock()
		if c.Messages >= least {
			if c.CPU, err = ownCPU(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_ = json.NewEncoder(w).Encode(c) // who asked sees it
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// RelayServer is the process in front of which the clients of Relay stand: a
// server of this project with its queue, or a WebSocket server and the broker's
// library alone. In both a consumer reads and acknowledges what was published. It
// runs until ctx ends.
func RelayServer(ctx context.Context, o RelayServerOptions) (err error) {
	b, err := o.start(ctx, o.Broker)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	tally := &relayTally{changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle(consumedPath, tally)
	g, running := errgroup.WithContext(ctx)
	switch o.Way {
	case wayRelay:
		err = serveRelay(running, b, o.Broker, mux, tally, g)
	case wayCeiling:
		err = serveCeiling(running, b, mux, tally, g)
	default:
		err = fmt.Errorf("%w: way %q is not known", synchronizer.ErrInvalid, o.Way)
	}
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for clients: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: startTimeout}
	g.Go(func() error {
		<-running.Done()
		return server.Close()
	})
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving clients: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		// Whoever waits for the file must not see half of it.
		if err := os.WriteFile(o.Address+".new", []byte(l.Addr().String()), 0o600); err != nil {
			return err
		}
		return os.Rename(o.Address+".new", o.Address)
	})
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// serveRelay is a server as internal/app/server wires it, without a database.
func serveRelay(ctx context.Context, b *broker, name string, mux *http.ServeMux, tally *relayTally, g *errgroup.Group) error {
	q, err := b.open(ctx)
	if err != nil {
		return err
	}
	reg := prometheus.NewRegistry()
	frames, err := link.NewMetrics(reg)
	if err != nil {
		return errors.Join(err, q.Close(ctx))
	}
	consumer, err := q.Consume(ctx, benchGroup)
	if err != nil {
		return errors.Join(err, q.Close(ctx))
	}
	drop := func(reason synchronizer.DropReason, name string) {
		fmt.Fprintf(os.Stderr, "dropped (%v): %s\n", reason, name)
	}
	s := relay.New(relay.Options{
		Queue: q, QueueName: name, Encoding: b.encoding, Authenticator: relay.Anonymous{},
		Link: link.Options{Drop: drop, Metrics: frames}, ServerName: "bench",
		UpwardBytes: relayUpward, BacklogBytes: relayUpward,
		Logger: quiet(), Registerer: reg, Drop: drop,
	})
	mux.Handle("/", s)
	done := make(chan struct{})
	g.Go(func() error {
		defer close(done)
		return s.Run(ctx)
	})
	g.Go(func() error {
		err := readRelayed(ctx, consumer, tally)
		<-done
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return errors.Join(err, consumer.Close(), q.Close(closing))
	})
	for s.Ready() != nil {
		if err := wait(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// readRelayed counts and acknowledges the objects.
func readRelayed(ctx context.Context, consumer synchronizer.Consumer, tally *relayTally) error {
	put := synchronizer.EventPut.String()
	for {
		batch, err := consumer.Next(ctx, readAtOnce, readBytes)
		if err == nil {
			err = batch.Ack(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading what was relayed: %w", err)
		}
		n, bytes := 0, 0
		for i := range batch.Records {
			if r := &batch.Records[i]; r.Property(queue.PropertyEvent) == put {
				n, bytes = n+1, bytes+len(r.Payload)
			}
		}
		tally.add(n, bytes)
	}
}
