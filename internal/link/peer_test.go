// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link/linktest"
)

// TestPingsThatWereAskedFor: a server of ours sends Pings to a client that asks, and
// nothing to one that does not, as those of the field.
func TestPingsThatWereAskedFor(t *testing.T) {
	s, links := testServer(t, linktest.Setup{PingInterval: 400 * time.Millisecond}, (*httptest.Server).Start)
	for header, pings := range map[string]bool{"": false, headerPing + ": 50ms\r\n": true, headerPing + ": never\r\n": false, headerPing + ": -1s\r\n": false} {
		peer := rawClient(t, s, header, nil)
		l := (<-links).(*v1)
		received := listenTo(t.Context(), l)
		peer.quiet(30 * time.Millisecond) // nothing before its first frame
		start := time.Now()
		require.NoError(t, peer.write(opBinary, pingMessage))
		if !pings {
			peer.quiet(150 * time.Millisecond) // the interval would be 80 ms
		} else {
			for range 3 {
				opcode, _, payload, err := peer.next()
				require.NoError(t, err)
				require.EqualValues(t, opBinary, opcode, "a message, never a WebSocket ping")
				require.Contains(t, string(payload), `"Event":7`)
			}
			require.GreaterOrEqual(t, time.Since(start), 2*80*time.Millisecond, "not as often as a client likes")
		}
		require.NoError(t, peer.conn.Close())
		require.ErrorIs(t, <-received, synchronizer.ErrDisconnected)
		require.NoError(t, l.Close(1000, ""))
	}
}

// listenTo receives until the link ends.
func listenTo(ctx context.Context, l *v1) <-chan error {
	done := make(chan error, 1)
	go func() {
		for {
			if _, err := l.Receive(context.WithoutCancel(ctx)); err != nil {
				done <- err
				return
			}
		}
	}()
	return done
}

// TestSilentServer: a server that has sent a Ping is given up when it sends none any
// more; one of the field, which never does, may be silent for ever.
func TestSilentServer(t *testing.T) {
	const interval = 60 * time.Millisecond
	for name, ours := range map[string]bool{"of ours": true, "of the field": false} {
		t.Run(name, func(t *testing.T) {
			url, accept := rawServer(t)
			d := &Dialer{URL: url, Hello: testHello, AccessKey: "key", Limits: Limits{PingInterval: interval}}
			dialed, err := d.Dial(t.Context())
			require.NoError(t, err)
			client, server := dialed.(*v1), accept()
			received := listenTo(t.Context(), client)
			if ours {
				require.NoError(t, server.write(opBinary, pingMessage))
				require.ErrorIs(t, <-received, synchronizer.ErrDisconnected)
			} else {
				for range 10 { // ten Pings of the client, and no word
					_, _, payload, err := server.next()
					require.NoError(t, err)
					require.Contains(t, string(payload), `"Event":7`)
				}
				require.Empty(t, received)
			}
			client.conn.abort()
			require.NoError(t, client.Close(1000, ""))
		})
	}
}

// TestClientThatNeverSaysAnything is given up like one that does not any more: the
// path may have broken right behind the upgrade.
func TestClientThatNeverSaysAnything(t *testing.T) {
	s, links := testServer(t, linktest.Setup{PingInterval: 50 * time.Millisecond}, (*httptest.Server).Start)
	rawClient(t, s, "", nil)
	l := (<-links).(*v1)
	select {
	case err := <-listenTo(t.Context(), l):
		require.ErrorIs(t, err, synchronizer.ErrDisconnected)
	case <-time.After(linktest.Limit):
		require.Fail(t, "nobody notices")
	}
	require.NoError(t, l.Close(1000, ""))
}

// TestUsualLimits: with what is usual a dead path is noticed within two ping
// intervals, and a client of the field may pause reading for 90 s.
func TestUsualLimits(t *testing.T) {
	client, server := Limits{}.withDefaults(clientWriteTimeout), Limits{}.withDefaults(serverWriteTimeout)
	require.Equal(t, 50*time.Second, client.PingInterval, "as in the field")
	require.LessOrEqual(t, client.PingInterval+client.UnackedTimeout, 2*client.PingInterval)
	require.Equal(t, 30*time.Second, client.WriteTimeout)
	require.Equal(t, 120*time.Second, server.WriteTimeout)
	require.Greater(t, server.WriteTimeout, 90*time.Second)
}

// TestPatient: waiting in Await loses nothing, whatever comes when.
func TestPatient(t *testing.T) {
	s, links := testServer(t, linktest.Setup{}, (*httptest.Server).Start)
	early := func(p *rawPeer, names ...string) (frames []byte) {
		for _, name := range names {
			frames = append(frames, p.frame(opBinary, []byte(checksumMessage(name)))...)
		}
		return frames
	}
	// Two frames come with the request, two later at once, and one alone.
	peer := rawClient(t, s, "", early(&rawPeer{client: true}, "a", "b"))
	l := (<-links).(*v1)
	p := AsPatient(wrapped{l})
	require.Same(t, l, p)
	poll := func(name string) {
		t.Helper()
		var m synchronizer.Message
		ok, err := p.Poll(&m)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, name, m.Name)
	}
	p.Await()
	poll("a")
	require.True(t, p.AwaitFor(time.Millisecond), "b is here already")
	poll("b")
	require.False(t, p.AwaitFor(10*time.Millisecond))
	require.False(t, p.AwaitFor(10*time.Millisecond), "and the link goes on")
	_, err := peer.conn.Write(early(peer, "c", "d"))
	require.NoError(t, err)
	p.Await()
	poll("c")
	require.True(t, p.AwaitFor(time.Millisecond))
	poll("d")
	// Two frames so small that the second is in the WebSocket's buffer already.
	var m synchronizer.Message
	_, err = peer.conn.Write(append(peer.frame(opBinary, nil), peer.frame(opBinary, nil)...))
	require.NoError(t, err)
	for range 2 {
		require.True(t, p.AwaitFor(linktest.Limit))
		ok, err := p.Poll(&m)
		require.NoError(t, err)
		require.False(t, ok, "that is no message")
	}
	// A frame that comes byte by byte, behind a Ping.
	require.NoError(t, peer.write(opBinary, pingMessage))
	frame := early(peer, "e")
	_, err = peer.conn.Write(frame[:1])
	require.NoError(t, err)
	p.Await()
	ok, err := p.Poll(&m)
	require.NoError(t, err)
	require.False(t, ok, "a Ping is nothing for the caller")
	p.Await()
	go func() { _, _ = peer.conn.Write(frame[1:]) }()
	poll("e")

	// Close ends a goroutine that waits, and the farewell of the peer is heard.
	heard := l.Heard()
	go func() {
		for {
			if opcode, _, payload, err := peer.next(); err != nil || opcode == opClose && peer.write(opClose, string(payload)) == nil {
				return
			}
		}
	}()
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		p.Await()
	}()
	require.NoError(t, l.Close(1001, ""))
	<-waited
	_, err = p.Poll(&m)
	require.ErrorIs(t, err, synchronizer.ErrClosed)
	require.Greater(t, l.Heard(), heard)
}

// TestFarewellThatIsNone: a connection that ends while Close waits for the answer is
// none.
func TestFarewellThatIsNone(t *testing.T) {
	s, links := testServer(t, linktest.Setup{}, (*httptest.Server).Start)
	peer := rawClient(t, s, "", nil)
	l := (<-links).(*v1)
	require.NoError(t, peer.write(opBinary, pingMessage))
	p := AsPatient(l)
	var m synchronizer.Message
	_, err := p.Poll(&m)
	require.NoError(t, err)
	go p.Await()
	heard := l.Heard()
	require.NoError(t, l.Close(1001, "")) // the peer never answers
	require.Equal(t, heard, l.Heard())
}

// TestFarewellInOtherWords: who answers a farewell with another status has heard it too.
func TestFarewellInOtherWords(t *testing.T) {
	for name, payload := range map[string]string{"1000": "\x03\xe8", "no status": ""} {
		t.Run(name, func(t *testing.T) {
			s, links := testServer(t, linktest.Setup{}, (*httptest.Server).Start)
			peer := rawClient(t, s, "", nil)
			l := (<-links).(*v1)
			require.NoError(t, peer.write(opBinary, pingMessage))
			var m synchronizer.Message
			_, err := AsPatient(l).Poll(&m)
			require.NoError(t, err)
			heard := l.Heard()
			go func() {
				for {
					if opcode, _, _, err := peer.next(); err != nil || opcode == opClose && peer.write(opClose, payload) == nil {
						return
					}
				}
			}()
			require.NoError(t, l.Close(1001, ""))
			require.Greater(t, l.Heard(), heard)
		})
	}
}

type wrapped struct{ synchronizer.Link }

func (w wrapped) Below() synchronizer.Link { return w.Link }

// TestNotPatient: what is no link of ours is not one that waits like it.
func TestNotPatient(t *testing.T) {
	require.Nil(t, AsPatient(struct{ synchronizer.Link }{}))
}

// TestRetryAfterHeader: seconds or a date; what is neither says nothing.
func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": -7 * time.Second, "99999999999": time.Hour, "soon": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): -time.Minute,
	} {
		require.Equal(t, want, retryAfter(text, now), text)
	}
}
