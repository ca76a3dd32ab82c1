// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"synchronizer/internal/bench/fleetclient"
)

const (
	fleetVersion  = "v0.0.120" // what clients call themselves
	dialAtOnce    = 256        // that many clients are being connected at a time
	pingEvery     = 50 * time.Second
	pingStep      = 5 * time.Millisecond
	portsFrom     = 16 // addresses from which clients come
	sendersAtOnce = 4
)

// fleet are clients that are connected to one server.
type fleet struct {
	address string
	conns   []*fleetclient.Conn // of clients first, first+1, …
	reading sync.WaitGroup
	closing atomic.Bool

	received atomic.Int64 // messages

	mu        sync.Mutex
	latencies []time.Duration // of stamped ones
	lost      int             // connections that ended by themselves
	why       error           // of the first
	changed   chan struct{}   // closed and replaced when something ends; received has no say
}

// connectFleet connects clients with the numbers from first on, as fast as they
// are let in. Each says a Ping at once.
func connectFleet(ctx context.Context, address string, first, n int, bar *Progress) (*fleet, error) {
	f := &fleet{address: address, conns: make([]*fleetclient.Conn, n), changed: make(chan struct{})}
	g, dialing := errgroup.WithContext(ctx)
	g.SetLimit(dialAtOnce)
	for i := range n {
		g.Go(func() error {
			c, err := dialOne(dialing, address, first+i, 0)
			if err != nil {
				return err
			}
			f.conns[i] = c
			bar.Add(1)
			f.reading.Go(func() { f.read(c) })
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func dialOne(ctx context.Context, address string, number, readBuffer int) (*fleetclient.Conn, error) {
	d := fleetclient.Dialer{
		Address: address, AccessKey: "bench", ReadBuffer: readBuffer,
		From: net.IPv4(127, 0, 0, byte(1+number%portsFrom)),
	}
	c, err := d.Dial(ctx, fleetCluster(number), fleetVersion)
	if err == nil {
		if err = c.Write(fleetclient.Ping()); err != nil {
			c.Reset()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("client %d: %w", number, err)
	}
	return c, nil
}

// read counts what the server says until the connection ends.
func (f *fleet) read(c *fleetclient.Conn) {
	var buf []byte
	for {
		frame, err := c.Read(buf)
		if err != nil {
			f.ended(err)
			return
		}
		buf = frame
		if sent, ok := readStamp(frame); ok {
			took := time.Since(sent)
			f.mu.Lock()
			f.latencies = append(f.latencies, took)
			f.mu.Unlock()
		}
		f.received.Add(1)
	}
}

func (f *fleet) ended(err error) {
	if f.closing.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost++; f.why == nil {
		f.why = err
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// whole is an error if a connection has ended by itself.
func (f *fleet) whole() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost > 0 {
		return fmt.Errorf("%d of %d clients lost their connection, the first one so: %w", f.lost, len(f.conns), f.why)
	}
	return nil
}

// close ends all connections and waits for those who read.
func (f *fleet) close() {
	f.closing.Store(true)
	for _, c := range f.conns {
		if c != nil {
			_ = c.Close()
		}
	}
	f.reading.Wait()
}

// ping lets each client say a Ping every 50 s, evenly spread, until ctx ends.
func (f *fleet) ping(ctx context.Context) error {
	start, done := time.Now(), 0
	for wait(ctx, pingStep) == nil {
		due := int(float64(len(f.conns)) * float64(time.Since(start)) / float64(pingEvery))
		for ; done < due; done++ {
			if err := f.conns[done%len(f.conns)].Write(fleetclient.Ping()); err != nil {
				return fmt.Errorf("sending a Ping: %w", err)
			}
		}
	}
	return nil
}

// send lets each client send messages of so many bytes, rate of them per second,
// evenly spread; with a rate of 0 as fast as they are read. A stamp is the time at
// which a message was due, so that one that waits for the one before counts whole.
func (f *fleet) send(ctx context.Context, messages, size int, rate float64) error {
	frame, err := stampedPut(size)
	if err != nil {
		return err
	}
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for worker := range sendersAtOnce {
		frame := append([]byte(nil), frame...)
		g.Go(func() error {
			n := len(f.conns)
			for i := worker; i < messages*n; i += sendersAtOnce {
				due := time.Now()
				if rate > 0 {
					due = start.Add(time.Duration(float64(i) / (float64(n) * rate) * float64(time.Second)))
					if early := time.Until(due); early > 0 {
						if err := wait(ctx, early); err != nil {
							return err
						}
					}
				}
				writeStamp(frame, due)
				if err := f.conns[i%n].Write(frame); err != nil {
					return fmt.Errorf("sending: %w", err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// awaitReceived waits until the clients have read so many messages since they
// connected.
func (f *fleet) awaitReceived(ctx context.Context, least int64) error {
	deadline := time.Now().Add(relayLimit)
	for f.received.Load() < least {
		if err := f.whole(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the clients read %d messages of %d within %s", f.received.Load(), least, relayLimit)
		}
		if err := wait(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// takeLatencies gives what there is since it was last asked for.
func (f *fleet) takeLatencies() fleetLatencies {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := summarize(f.latencies)
	f.latencies = f.latencies[:0]
	return l
}
