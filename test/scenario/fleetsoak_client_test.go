// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/google/uuid"

	"synchronizer"
	"synchronizer/internal/bench/fleetclient"
	"synchronizer/internal/queue"
	"synchronizer/internal/wire"
	"synchronizer/test/kubetest/proxy"
)

func soakCluster(client int) synchronizer.ClusterID {
	return synchronizer.ClusterID{Account: "11111111-2222-3333-4444-555555555555", Cluster: fmt.Sprintf("soak-%04d", client)}
}

// soakClient is one client of the soak, over all its connections.
type soakClient struct {
	soak   *fleetSoak
	number int
	random *rand.Rand
	count  int // sessions so far
}

// soakBodyBytes is above the body of a message.
const soakBodyBytes = 4 << 10

// live is one connection of a client.
type live struct {
	*fleetclient.Conn
	session session
	sent    int
	done    chan struct{} // closed when nothing reads any more; nil: nothing does
	err     error         // how reading ended
}

// ways in which a session ends, and how often of 100.
const (
	endsInOrder = 40 // FIN
	endsByReset = 25 // RST
	isReplaced  = 15 // another one of the cluster takes its place
	readsNot    = 12 // while it is told much
	// in a black hole: the others
)

// run has one session after the other until ctx ends, and leaves one connected.
func (c *soakClient) run(ctx context.Context) (*live, error) {
	for ctx.Err() == nil {
		if err := c.session(ctx); err != nil {
			return nil, fmt.Errorf("client %d, session %d: %w", c.number, c.count, err)
		}
	}
	// What is left to do is done.
	return c.connect(context.WithoutCancel(ctx), c.soak.backend.clients, true)
}

// connect begins a session.
func (c *soakClient) connect(ctx context.Context, address string, reads bool) (*live, error) {
	d := fleetclient.Dialer{Address: address, AccessKey: "soak", From: net.IPv4(127, 0, 0, byte(1+c.number%16))}
	if !reads {
		// Below the size of a segment a connection may stand still for minutes.
		d.ReadBuffer = 256 << 10
	}
	c.count++
	l := &live{session: session{client: c.number, number: c.count}}
	c.soak.ledger.begin(l.session)
	var err error
	if l.Conn, err = d.Dial(ctx, soakCluster(c.number), "v0.0.120"); err != nil {
		return nil, err
	}
	if reads {
		c.reads(l)
	}
	c.soak.sessions.Add(1)
	return l, l.Write(fleetclient.Ping())
}

func (c *soakClient) reads(l *live) {
	l.done = make(chan struct{})
	c.soak.reading.Go(func() {
		defer close(l.done)
		var buf []byte
		for l.err == nil {
			buf, l.err = l.Read(buf)
			c.soak.received.Add(1)
		}
	})
}

// say sends up to n messages. An error of the connection is not one of the soak: the
// server may have ended it.
func (c *soakClient) say(ctx context.Context, l *live, n int) {
	for range n {
		m := synchronizer.Message{
			Event: synchronizer.EventPut, MsgID: uuid.NewString(), Kind: configMaps, Namespace: "soak", Name: l.session.object(l.sent + 1),
			Checksum: strings.Repeat("0", 64), Body: []byte(`{"pad":"` + strings.Repeat("x", c.random.IntN(soakBodyBytes)) + `"}`),
		}
		frame, err := wire.AppendV1(nil, &m)
		if err != nil {
			panic(err) // only for a message that does not travel
		}
		if l.Write(fleetclient.AppendFrame(nil, frame)) != nil {
			return
		}
		l.sent++
		c.soak.sent.Add(1)
		if c.random.IntN(4) == 0 {
			c.rest(ctx, 40*time.Millisecond)
		}
	}
}

// rest waits for a random time of up to most.
func (c *soakClient) rest(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(rand.N(most)) // not of the seed: it decides what is done, not how fast
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ended waits until the server has ended the connection.
func (c *soakClient) ended(l *live) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-l.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("the server does not end session %v", l.session)
	}
}

// reset ends a session with RST: what the server has not read by then is lost.
func (c *soakClient) reset(l *live) {
	l.Reset()
	if l.done != nil {
		<-l.done
	}
	c.soak.ledger.end(l.session, l.sent, false)
}

// finish ends a session with FIN: all of it has to come, unless the server was the
// first to end it.
func (c *soakClient) finish(l *live) error {
	failed := l.Finish()
	err := c.ended(l)
	var closed *fleetclient.ClosedError
	// The server answers an end of the stream with 1001 or with its own end.
	byServer := errors.As(l.err, &closed) && closed.Code != 1001
	_ = l.Close() // it has ended
	c.soak.ledger.end(l.session, l.sent, failed == nil && err == nil && !byServer)
	c.soak.finished.Add(1)
	return err
}

func (c *soakClient) session(ctx context.Context) error {
	address := c.soak.backend.clients
	way := c.random.IntN(100)
	if c.count == 0 { // a short run has every way, too
		way = 100 * c.number / len(c.soak.clients)
	}
	n := 1 + c.random.IntN(40)
	inHole := way >= endsInOrder+endsByReset+isReplaced+readsNot
	if inHole {
		return c.inBlackHole(ctx, n)
	}
	slow := way >= endsInOrder+endsByReset+isReplaced
	l, err := c.connect(ctx, address, !slow)
	if err != nil {
		return c.unless(ctx, err)
	}
	c.say(ctx, l, n)
	switch {
	case way < endsInOrder:
		c.rest(ctx, 500*time.Millisecond)
		return c.finish(l)
	case way < endsInOrder+endsByReset:
		c.rest(ctx, 500*time.Millisecond)
		c.soak.resets.Add(1)
		c.reset(l)
		return nil
	case way < endsInOrder+endsByReset+isReplaced:
		return c.replace(ctx, l, n)
	}
	return c.readNothing(ctx, l, n)
}

// unless is err, unless the soak is over.
func (c *soakClient) unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// replace connects again while the connection before lives, which the server ends.
func (c *soakClient) replace(ctx context.Context, old *live, n int) error {
	next, err := c.connect(ctx, c.soak.backend.clients, true)
	if err != nil {
		c.reset(old)
		return c.unless(ctx, err)
	}
	c.say(ctx, old, n) // as far as that goes
	c.say(ctx, next, n)
	err = c.ended(old)
	c.reset(old)
	c.soak.replaced.Add(1)
	return errors.Join(err, c.finish(next))
}

// readNothing is told much; now and then, and until it has shown once, more than the
// server and the buffers of the systems keep for it. Then it reads it all after all,
// or goes.
func (c *soakClient) readNothing(ctx context.Context, l *live, n int) error {
	flood, missed := c.soak.run.flood, c.soak.missed()
	tooMuch := missed == 0 || c.soak.floods.Add(1)%8 == 0
	told := ctx
	if tooMuch {
		// In a short run also when its time is over.
		flood, told = 4*flood, context.WithoutCancel(ctx)
	}
	if err := c.soak.tell(told, c.number, flood); err != nil {
		c.reset(l)
		return c.unless(ctx, err)
	}
	for tries := 0; tooMuch && tries < 100 && c.soak.missed() == missed; tries++ {
		c.rest(told, 200*time.Millisecond)
	}
	c.rest(ctx, 500*time.Millisecond)
	c.say(ctx, l, n)
	c.soak.slow.Add(1)
	if c.random.IntN(2) == 0 {
		c.reset(l)
		return nil
	}
	c.reads(l)
	return c.finish(l)
}

// inBlackHole goes on talking when nothing gets through any more, and connects on
// another way while the server still believes in the first one.
func (c *soakClient) inBlackHole(ctx context.Context, n int) error {
	var hole *proxy.Proxy
	select {
	case hole = <-c.soak.holes:
	case <-ctx.Done():
		return nil
	}
	defer func() { c.soak.holes <- hole }()
	l, err := c.connect(ctx, hole.Addr(), true)
	if err != nil {
		return c.unless(ctx, err)
	}
	c.say(ctx, l, n)
	hole.BlackHole(true)
	c.say(ctx, l, n)
	c.soak.blackHoles.Add(1)
	next, err := c.connect(ctx, c.soak.backend.clients, true)
	if err == nil {
		c.say(ctx, next, n)
		c.rest(ctx, time.Second)
	}
	hole.Cut()
	c.reset(l)
	hole.BlackHole(false)
	if err != nil {
		return c.unless(ctx, err)
	}
	return c.finish(next)
}

// soakFloodBytes is the body of a command.
const soakFloodBytes = 8 << 10

// tell publishes so many commands for one client.
func (s *fleetSoak) tell(ctx context.Context, client, n int) error {
	encoder := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	records := make([]synchronizer.Record, 0, n)
	for i := range n {
		r, err := encoder.Encode(&synchronizer.Message{
			Event: synchronizer.EventPut, MsgID: uuid.NewString(), Kind: configMaps, Namespace: "soak", Name: fmt.Sprintf("told-%d", i),
			Checksum: strings.Repeat("0", 64), Body: []byte(`{"pad":"` + strings.Repeat("x", soakFloodBytes) + `"}`), ClusterID: soakCluster(client),
		}, queue.Extra{})
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	return s.backend.queue.Publish(ctx, synchronizer.In, records)
}
