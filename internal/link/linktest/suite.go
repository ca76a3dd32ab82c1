// SPDX-License-Identifier: Apache-2.0

package linktest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// Run checks everything that synchronizer.Link promises.
func Run(t *testing.T, factory Factory) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Factory)
	}{
		{"Order", testOrder},
		{"ConcurrentSend", testConcurrentSend},
		{"BigMessages", testBigMessages},
		{"TooLargeIsDropped", testTooLarge},
		{"MalformedIsSkipped", testMalformed},
		{"BodiesBelongToTheReceiver", testOwnership},
		{"ServerWaitsForTheFirstFrame", testFirstFrame},
		{"CloseEndsSendAndReceive", testClose},
		{"CloseOfThePeer", testPeerClose},
		{"PeerGone", testPeerGone},
		{"ContextEndsTheLink", testContext},
		{"PeerDoesNotRead", testPeerDoesNotRead},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, factory) })
	}
}

// patience is the second that Close may take, and some for a busy machine.
const patience = 4 * time.Second

// ends runs a test in both directions, on a new connection each.
func ends(t *testing.T, factory Factory, setup Setup, run func(t *testing.T, from, to synchronizer.Link)) {
	t.Run("up", func(t *testing.T) {
		p := factory(t, setup)
		run(t, p.Client, p.Server)
	})
	t.Run("down", func(t *testing.T) {
		p := factory(t, setup)
		run(t, p.Server, p.Client)
	})
}

// listen receives in the background until an error; the server end needs that
// before it can send.
func listen(t *testing.T, l synchronizer.Link) <-chan error {
	done := make(chan error, 1)
	go func() {
		for {
			if _, err := l.Receive(t.Context()); err != nil {
				done <- err
				return
			}
		}
	}()
	return done
}

func waitFor(t *testing.T, errs <-chan error) error {
	t.Helper()
	select {
	case err := <-errs:
		return err
	case <-time.After(Limit):
		require.FailNow(t, "nothing happened")
		return nil
	}
}

func testOrder(t *testing.T, factory Factory) {
	ends(t, factory, Setup{}, func(t *testing.T, from, to synchronizer.Link) {
		listen(t, from)
		sent := make(chan error, 1)
		const rounds = 100
		go func() {
			for i := range rounds {
				if err := from.Send(t.Context(), Checksum(fmt.Sprint(3*i)), Put(fmt.Sprint(3*i+1), 10000), Checksum(fmt.Sprint(3*i+2))); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		for i := range 3 * rounds {
			m, err := to.Receive(t.Context())
			require.NoError(t, err)
			want := Checksum(fmt.Sprint(i))
			if i%3 == 1 {
				want = Put(fmt.Sprint(i), 10000)
			}
			require.Equal(t, want, m)
		}
		require.NoError(t, waitFor(t, sent))
	})
}

func testConcurrentSend(t *testing.T, factory Factory) {
	ends(t, factory, Setup{}, func(t *testing.T, from, to synchronizer.Link) {
		listen(t, from)
		const senders, each = 8, 50
		errs := make(chan error, senders)
		for s := range senders {
			go func() {
				for i := range each {
					m := Put(fmt.Sprint(s), 5000)
					m.ResourceVersion = int64(i)
					if err := from.Send(t.Context(), m); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		next := map[string]int64{}
		for range senders * each {
			m, err := to.Receive(t.Context())
			require.NoError(t, err)
			require.Equal(t, next[m.Name], m.ResourceVersion, "messages of one sender keep their order")
			require.Len(t, m.Body, 5000)
			next[m.Name]++
		}
		for range senders {
			require.NoError(t, waitFor(t, errs))
		}
	})
}

func testBigMessages(t *testing.T, factory Factory) {
	ends(t, factory, Setup{}, func(t *testing.T, from, to synchronizer.Link) {
		listen(t, from)
		messages := []synchronizer.Message{
			Put("33KiB", 33<<10), Put("200KiB", 200<<10), Put("1.4MiB", 14<<20/10), Reconciliation(6 << 20), Checksum("last"),
		}
		sent := make(chan error, 1)
		go func() { sent <- from.Send(t.Context(), messages...) }()
		for _, want := range messages {
			m, err := to.Receive(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, m)
		}
		require.NoError(t, waitFor(t, sent))
	})
}

func testTooLarge(t *testing.T, factory Factory) {
	var client, server Drops
	p := factory(t, Setup{MaxMessageBytes: 100_000, ClientDrop: client.Drop, ServerDrop: server.Drop})
	// Once, so that the server may write.
	require.NoError(t, roundTrip(t, p.Client, p.Server, func() error { return nil }))
	for _, end := range []struct {
		from, to synchronizer.Link
		inject   func([]byte, bool) error
		mine     *Drops
		theirs   *Drops
	}{
		{p.Client, p.Server, p.ToServer, &client, &server},
		{p.Server, p.Client, p.ToClient, &server, &client},
	} {
		end.mine.Reset()
		end.theirs.Reset()
		sent := make(chan error, 1)
		go func() {
			sent <- end.from.Send(t.Context(), Checksum("before"), Put("web", 100_000), Checksum("after"))
		}()
		for _, name := range []string{"before", "after"} {
			m, err := end.to.Receive(t.Context())
			require.NoError(t, err)
			require.Equal(t, name, m.Name)
		}
		err := waitFor(t, sent)
		require.ErrorIs(t, err, synchronizer.ErrTooLarge)
		require.ErrorContains(t, err, "apps/v1/deployments default/web")
		end.mine.Require(t, "too_large: to the peer: apps/v1/deployments default/web")
		require.Empty(t, end.theirs.All())

		// A peer with another limit sends it all the same.
		frame := []byte(`{"Checksum":"","Depth":1,"Event":6,"Kind":{"Group":"apps","Version":"v1","Resource":"deployments"},"MsgId":"",` +
			`"Name":"web","Namespace":"default","Object":"` + strings.Repeat("x", 3_000_000) + `"}`)
		require.NoError(t, roundTrip(t, end.from, end.to, func() error { return end.inject(frame, true) }))
		end.theirs.Require(t, fmt.Sprintf("too_large: apps/v1/deployments default/web (%d bytes", len(frame)))
	}
}

// roundTrip injects something, and checks that a message behind it arrives.
func roundTrip(t *testing.T, from, to synchronizer.Link, inject func() error) error {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		if err := inject(); err != nil {
			sent <- err
			return
		}
		sent <- from.Send(t.Context(), Checksum("alive"))
	}()
	m, err := to.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, Checksum("alive"), m)
	return waitFor(t, sent)
}

func testMalformed(t *testing.T, factory Factory) {
	const kind = `"Kind":{"Group":"","Version":"v1","Resource":"pods"}`
	frames := []struct {
		frame  string
		text   bool
		reason string
	}{
		{frame: "hello", reason: "malformed: a frame without a name: "},
		{frame: "", reason: "malformed"},
		{frame: `{"Event":null,` + kind + `,"Name":"a","Namespace":"b"}`, reason: "malformed: /v1/pods b/a: invalid frame: Event is missing"},
		{frame: `{"Event":4,"Kind":null}`, reason: "malformed"},
		{frame: `{"Event":8,"Kind":null,"Items":{}}`, reason: "malformed"},
		{frame: `{"Event":8,` + kind + `,"Items":null}`, reason: "malformed: /v1/pods (batch): "},
		{frame: `{"Event":99,` + kind + `,"Name":"a","Namespace":"b"}`, reason: "unknown_event: /v1/pods b/a"},
		{frame: `{"Event":1,` + kind + `}`, reason: "unknown_event"},
		{frame: `{"Event":3,` + kind + `}`, reason: "unknown_event"},
		{frame: `{"Event":0,"Depth":9,` + kind + `,"Name":"a","Namespace":"b"}`, reason: "too_deep: NewChecksum /v1/pods b/a (depth 9)"},
		{frame: `{"Event":0,"Depth":1,` + kind + `}`, text: true, reason: "text_frame"},
	}
	var client, server Drops
	p := factory(t, Setup{ClientDrop: client.Drop, ServerDrop: server.Drop})
	var want []string
	for _, f := range frames {
		require.NoError(t, p.ToServer([]byte(f.frame), !f.text))
		want = append(want, f.reason)
	}
	require.NoError(t, roundTrip(t, p.Client, p.Server, func() error { return p.ToServer([]byte(`{"Event":7,"Kind":null}`), true) }))
	server.Require(t, want...)
	for _, f := range frames {
		require.NoError(t, p.ToClient([]byte(f.frame), !f.text))
	}
	listen(t, p.Server)
	require.NoError(t, roundTrip(t, p.Server, p.Client, func() error { return nil }))
	client.Require(t, want...)
}

func testOwnership(t *testing.T, factory Factory) {
	ends(t, factory, Setup{}, func(t *testing.T, from, to synchronizer.Link) {
		listen(t, from)
		out := []synchronizer.Message{Put("a", 3000), Put("b", 3000)}
		require.NoError(t, from.Send(t.Context(), out...))
		clear(out[0].Body) // bodies are not kept after the return
		a, err := to.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, Put("a", 3000), a)
		a.Body = append(a.Body[:0], make([]byte, 3000)...)
		b, err := to.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, Put("b", 3000), b)
	})
}

func testFirstFrame(t *testing.T, factory Factory) {
	p := factory(t, Setup{})
	sent := make(chan error, 1)
	go func() { sent <- p.Server.Send(t.Context(), Checksum("down")) }()
	received := make(chan error, 1)
	go func() {
		m, err := p.Client.Receive(t.Context())
		if err == nil && m.Name != "down" {
			err = fmt.Errorf("received %s", m.Name)
		}
		received <- err
	}()
	select {
	case err := <-sent:
		require.FailNow(t, "the server wrote before it had read the client's first frame", "%v", err)
	case <-received:
		require.FailNow(t, "the client received something")
	case <-time.After(50 * time.Millisecond): // that nothing happens can only be watched
	}
	listen(t, p.Server)
	require.NoError(t, waitFor(t, sent))
	require.NoError(t, waitFor(t, received))
}

func testClose(t *testing.T, factory Factory) {
	ends(t, factory, Setup{}, func(t *testing.T, mine, _ synchronizer.Link) {
		received := listen(t, mine)
		var sending sync.WaitGroup
		errs := make(chan error, 3)
		for range 3 { // the peer does not read, so one blocks and two wait for it
			sending.Go(func() {
				for {
					if err := mine.Send(t.Context(), Put("x", 1<<20)); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		<-time.After(100 * time.Millisecond) // the buffers fill; nothing tells when
		start := time.Now()
		require.NoError(t, mine.Close(1001, "going away"))
		require.Less(t, time.Since(start), patience)
		for range 3 {
			require.ErrorIs(t, waitFor(t, errs), synchronizer.ErrClosed)
		}
		require.ErrorIs(t, waitFor(t, received), synchronizer.ErrClosed)
		sending.Wait()
		require.ErrorIs(t, mine.Send(t.Context(), Checksum("x")), synchronizer.ErrClosed)
		_, err := mine.Receive(t.Context())
		require.ErrorIs(t, err, synchronizer.ErrClosed)
		require.NoError(t, mine.Close(1001, "again"))
	})
}

func testPeerClose(t *testing.T, factory Factory) {
	ends(t, factory, Setup{}, func(t *testing.T, mine, peer synchronizer.Link) {
		listen(t, peer)
		received := listen(t, mine)
		require.NoError(t, mine.Send(t.Context(), Checksum("x")))
		require.NoError(t, peer.Close(1013, "the queue is full"))
		err := waitFor(t, received)
		require.ErrorIs(t, err, synchronizer.ErrDisconnected)
		require.ErrorContains(t, err, "the queue is full")
		require.ErrorIs(t, mine.Send(t.Context(), Checksum("x")), synchronizer.ErrDisconnected)
		require.NoError(t, mine.Close(1000, ""))
		require.ErrorIs(t, mine.Send(t.Context(), Checksum("x")), synchronizer.ErrDisconnected, "the first error stays")
	})
}

func testPeerGone(t *testing.T, factory Factory) {
	for _, name := range []string{"client", "server"} {
		t.Run(name, func(t *testing.T) {
			p := factory(t, Setup{})
			mine := map[string]synchronizer.Link{"client": p.Client, "server": p.Server}[name]
			received := listen(t, mine)
			require.NoError(t, mine.Send(t.Context(), Checksum("x")))
			p.Cut()
			require.ErrorIs(t, waitFor(t, received), synchronizer.ErrDisconnected)
			require.ErrorIs(t, mine.Send(t.Context(), Checksum("x")), synchronizer.ErrDisconnected)
			start := time.Now()
			require.NoError(t, mine.Close(1001, ""))
			require.Less(t, time.Since(start), patience)
		})
	}
}

func testContext(t *testing.T, factory Factory) {
	ends(t, factory, Setup{}, func(t *testing.T, mine, _ synchronizer.Link) {
		ctx, cancel := context.WithCancel(t.Context())
		received := make(chan error, 1)
		go func() {
			_, err := mine.Receive(ctx)
			received <- err
		}()
		require.NoError(t, mine.Send(t.Context(), Checksum("x")))
		cancel()
		err := waitFor(t, received)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, synchronizer.ErrDisconnected)
		require.ErrorIs(t, mine.Send(t.Context(), Checksum("x")), synchronizer.ErrDisconnected)
	})
	ends(t, factory, Setup{}, func(t *testing.T, mine, _ synchronizer.Link) {
		listen(t, mine)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		var err error
		for err == nil { // until the buffers are full and one blocks
			err = mine.Send(ctx, Put("x", 1<<20))
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, synchronizer.ErrDisconnected)
	})
}

func testPeerDoesNotRead(t *testing.T, factory Factory) {
	ends(t, factory, Setup{WriteTimeout: 200 * time.Millisecond}, func(t *testing.T, mine, _ synchronizer.Link) {
		listen(t, mine)
		start := time.Now()
		var err error
		for err == nil && time.Since(start) < Limit {
			err = mine.Send(t.Context(), Put("x", 1<<20))
		}
		require.ErrorIs(t, err, synchronizer.ErrDisconnected)
		require.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)
	})
}
