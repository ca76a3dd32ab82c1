// SPDX-License-Identifier: Apache-2.0

package link

import (
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link/linktest"
)

// Numbers are those of docs/peers.md.

// TestFirstFrameMayBeAny (20): whatever a client says first, the server may write
// then, and not before.
func TestFirstFrameMayBeAny(t *testing.T) {
	s, links := testServer(t, linktest.Setup{}, (*httptest.Server).Start)
	for name, first := range map[string]string{
		"Ping": pingMessage, "NewChecksum": checksumMessage("a"), "unknown event": `{"Event":99}`, "no JSON": "hello",
		"ObjectDeleted": `{"ResourceVersion":0,"Depth":1,"Event":2,"Kind":{"Group":"","Version":"v1","Resource":"pods","AdditionalProperties":null},"MsgId":"m","Name":"a","Namespace":"b","AdditionalProperties":null}`,
	} {
		peer := rawClient(t, s, "", nil)
		l := (<-links).(*v1)
		received := listenTo(t.Context(), l)
		sent := make(chan error, 1)
		go func() { sent <- l.Send(t.Context(), linktest.Checksum("down")) }()
		peer.quiet(20 * time.Millisecond)
		require.NoError(t, peer.write(opBinary, first), name)
		opcode, final, payload, err := peer.next()
		require.NoError(t, err, name)
		require.True(t, final)
		require.EqualValues(t, opBinary, opcode)
		require.Contains(t, string(payload), `"Name":"down"`)
		require.NoError(t, <-sent)
		require.NoError(t, peer.conn.Close()) // without a close frame (22)
		require.ErrorIs(t, <-received, synchronizer.ErrDisconnected)
		require.NoError(t, l.Close(1000, ""))
	}
}

// TestKeysInAnyCase (24): unknown keys are ignored, known ones read in any case.
func TestKeysInAnyCase(t *testing.T) {
	s, links := testServer(t, linktest.Setup{}, (*httptest.Server).Start)
	peer := rawClient(t, s, "", nil)
	l := <-links
	for _, change := range []func(string) string{strings.ToLower, strings.ToUpper, func(s string) string { return s }} {
		frame := checksumMessage("a")
		for _, key := range []string{"Depth", "Event", "Kind", "Group", "Version", "Resource", "MsgId", "Name", "Namespace", "ResourceVersion", "Checksum"} {
			frame = strings.Replace(frame, `"`+key+`":`, `"`+change(key)+`":`, 1)
		}
		frame = strings.Replace(frame, `{`, `{"unknown":{"Name":"no"},`, 1)
		require.NoError(t, peer.write(opBinary, frame))
		m, err := l.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, synchronizer.EventVerify, m.Event)
		require.Equal(t, []string{"a", "default", "deployments", "c"}, []string{m.Name, m.Namespace, m.Kind.Resource, m.Checksum}, frame)
	}
	require.NoError(t, peer.conn.Close())
	require.NoError(t, l.Close(1000, ""))
}

// TestNoControlFramesToV1Peers (23): a WebSocket ping corrupts what a client of the
// field writes, so neither end sends any, not even in a long silence.
func TestNoControlFramesToV1Peers(t *testing.T) {
	const interval = 400 * time.Millisecond
	s, links := testServer(t, linktest.Setup{PingInterval: interval}, (*httptest.Server).Start)
	peer := rawClient(t, s, "", nil)
	l := (<-links).(*v1)
	received := listenTo(t.Context(), l)
	for range 8 { // silent, but for what keeps it connected
		require.NoError(t, peer.write(opBinary, pingMessage))
		peer.quiet(interval / 2) // long before the server gives it up
	}
	require.Empty(t, received)
	require.NoError(t, peer.conn.Close())
	require.NoError(t, l.Close(1000, ""))

	url, accept := rawServer(t)
	d := &Dialer{URL: url, Hello: testHello, AccessKey: "key", Limits: Limits{PingInterval: interval}}
	client, err := d.Dial(t.Context())
	require.NoError(t, err)
	server := accept()
	for range 4 {
		opcode, _, payload, err := server.next()
		require.NoError(t, err)
		require.EqualValues(t, opBinary, opcode)
		require.Contains(t, string(payload), `"Event":7`)
	}
	client.(*v1).conn.abort()
	require.NoError(t, client.Close(1000, ""))
}

// TestSlowReaderIsKept: the write limit is one without progress. A peer that takes
// one KiB every 20 s is slow; one that takes nothing is gone.
func TestSlowReaderIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := newConn(near, 0, 30*time.Second)
		const size = 3*chunkBytes + 100
		wrote := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, size))
			wrote <- err
		}()
		began := time.Now()
		buf := make([]byte, 1<<10)
		for left := size; left > 0; {
			n, err := far.Read(buf)
			require.NoError(t, err)
			left -= n
			time.Sleep(20 * time.Second) // of the bubble
		}
		require.NoError(t, <-wrote)
		require.Greater(t, time.Since(began), time.Hour)

		began = time.Now()
		_, err := c.Write(buf)
		require.Error(t, err)
		require.Equal(t, 30*time.Second, time.Since(began))
		require.NoError(t, near.Close())
	})
}
