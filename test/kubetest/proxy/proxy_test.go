// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer/test/kubetest/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 10 * time.Second

// echo is a server that sends back what it gets and then ends its stream.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(connection, connection)
				_ = connection.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

func dial(t *testing.T, p *proxy.Proxy) *net.TCPConn {
	t.Helper()
	connection, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	require.NoError(t, connection.SetDeadline(time.Now().Add(limit)))
	return connection.(*net.TCPConn)
}

// say sends text and returns what comes back.
func say(t *testing.T, connection net.Conn, text string) string {
	t.Helper()
	_, err := io.WriteString(connection, text)
	require.NoError(t, err)
	return hear(t, connection, len(text))
}

func hear(t *testing.T, connection net.Conn, n int) string {
	t.Helper()
	answer := make([]byte, n)
	_, err := io.ReadFull(connection, answer)
	require.NoError(t, err)
	return string(answer)
}

// requireReset checks that a new connection is reset, which may become known
// before or after the handshake is reported.
func requireReset(t *testing.T, p *proxy.Proxy) {
	t.Helper()
	connection, err := net.Dial("tcp", p.Addr())
	if err == nil {
		_ = connection.SetDeadline(time.Now().Add(limit))
		_, err = connection.Read(make([]byte, 1))
		_ = connection.Close()
	}
	require.ErrorContains(t, err, "reset")
}

func TestForwardsAndEnds(t *testing.T) {
	p := proxy.New(t, echo(t))
	connection := dial(t, p)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB, more than any buffer on the way
	go func() {
		_, _ = connection.Write(sent)
		_ = connection.CloseWrite()
	}()
	got, err := io.ReadAll(connection)
	require.NoError(t, err)
	require.True(t, bytes.Equal(sent, got))
	require.Eventually(t, func() bool { return p.Counters().Open == 0 }, limit, time.Millisecond)
	require.Equal(t, proxy.Counters{Accepted: 1, Bytes: [2]int64{4 << 20, 4 << 20}}, p.Counters())
}

func TestCutResetsAndLetsInAgain(t *testing.T) {
	p := proxy.New(t, echo(t))
	connection := dial(t, p)
	require.Equal(t, "a", say(t, connection, "a"))
	p.Cut()
	_, err := connection.Read(make([]byte, 1))
	require.ErrorContains(t, err, "reset")
	require.Equal(t, "b", say(t, dial(t, p), "b"))
}

func TestRefuseKeepsOpenConnections(t *testing.T) {
	p := proxy.New(t, echo(t))
	old := dial(t, p)
	require.Equal(t, "a", say(t, old, "a"))
	p.Refuse(true)
	requireReset(t, p)
	require.Equal(t, "b", say(t, old, "b"))
	p.Refuse(false)
	require.Equal(t, "c", say(t, dial(t, p), "c"))
	require.EqualValues(t, 1, p.Counters().Refused)
}

func TestBlackHoleHoldsAndDeliversLater(t *testing.T) {
	p := proxy.New(t, echo(t))
	connection := dial(t, p)
	require.Equal(t, "a", say(t, connection, "a"))
	p.BlackHole(true)
	p.BlackHole(true)
	_, err := io.WriteString(connection, "held")
	require.NoError(t, err)
	require.NoError(t, connection.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = connection.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, connection.SetReadDeadline(time.Now().Add(limit)))
	p.BlackHole(false)
	require.Equal(t, "held", hear(t, connection, 4))
}

func TestBlackHoleCanBeCut(t *testing.T) {
	p := proxy.New(t, echo(t))
	connection := dial(t, p)
	require.Equal(t, "a", say(t, connection, "a"))
	p.BlackHole(true)
	_, err := io.WriteString(connection, "lost")
	require.NoError(t, err)
	p.Cut()
	_, err = connection.Read(make([]byte, 1))
	require.ErrorContains(t, err, "reset")
}

func TestDelayIsLatencyNotThroughput(t *testing.T) {
	p := proxy.New(t, echo(t))
	connection := dial(t, p)
	const delay = 30 * time.Millisecond
	p.Delay(delay)
	start := time.Now()
	require.Equal(t, "a", say(t, connection, "a"))
	// A lower bound only: a busy machine may take longer, never shorter.
	require.GreaterOrEqual(t, time.Since(start), 2*delay)
}

func TestHalfCloseLeavesTheOtherDirection(t *testing.T) {
	p := proxy.New(t, echo(t))
	connection := dial(t, p)
	require.Equal(t, "a", say(t, connection, "a"))
	p.HalfClose(proxy.ToClient)
	_, err := connection.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	_, err = io.WriteString(connection, "still heard")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return p.Counters().Bytes[proxy.ToTarget] == int64(len("a")+len("still heard"))
	}, limit, time.Millisecond)
}

func TestCorruptChangesOneByte(t *testing.T) {
	p := proxy.New(t, echo(t))
	connection := dial(t, p)
	p.Corrupt(proxy.ToClient, 1)
	got := say(t, connection, "abc")
	require.NotEqual(t, "abc", got)
	require.Equal(t, "a", got[:1])
	require.Equal(t, "abc", say(t, connection, "abc"))
	require.EqualValues(t, 1, p.Counters().Corrupted)
}

func TestSetTargetAndUnreachableTarget(t *testing.T) {
	dead, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, dead.Close())
	p := proxy.New(t, dead.Addr().String())
	requireReset(t, p)
	p.SetTarget(echo(t))
	require.Equal(t, "a", say(t, dial(t, p), "a"))
}
