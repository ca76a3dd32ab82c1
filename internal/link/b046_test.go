// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link/linktest"
)

// Case B046: a WebSocket read limit lower than the biggest object. All sizes
// pass by default; over the configured maximum only the one message is dropped,
// by name, and there is no reconnect loop.
func TestB046ReadLimitLowerThanTheBiggestObject(t *testing.T) {
	sizes := map[string]synchronizer.Message{
		"33KiB": linktest.Put("33KiB", 33<<10), "200KiB": linktest.Put("200KiB", 200<<10),
		"1.4MiB": linktest.Put("1.4MiB", 14<<20/10), "reconciliation of 6MiB": linktest.Reconciliation(6 << 20),
	}
	t.Run("all pass by default", func(t *testing.T) {
		client, server := pair(t, linktest.Setup{}, (*httptest.Server).Start)
		for _, end := range [][2]*v1{{client, server}, {server, client}} {
			for name, m := range sizes {
				go func() { _ = end[0].Send(t.Context(), m) }() // Receive tells how it went
				got, err := end[1].Receive(t.Context())
				require.NoError(t, err, name)
				require.Equal(t, m, got)
			}
		}
	})
	t.Run("above the configured maximum", func(t *testing.T) {
		var drops linktest.Drops
		metrics, err := NewMetrics(prometheus.NewRegistry())
		require.NoError(t, err)
		// Only the server has the maximum, so the client sends what is too large.
		s, links := testServer(t, linktest.Setup{MaxMessageBytes: 100 << 10, ServerDrop: drops.Drop}, (*httptest.Server).Start)
		dialer := testDialer(s, linktest.Setup{})
		dialer.Metrics = metrics
		client, err := dialer.Dial(t.Context())
		require.NoError(t, err)
		server := <-links
		for range 3 { // as after a reconnect, if there were one
			go func() {
				_ = client.Send(t.Context(), linktest.Checksum("before"), sizes["200KiB"], linktest.Checksum("after"))
			}()
			for _, name := range []string{"before", "after"} {
				m, err := server.Receive(t.Context())
				require.NoError(t, err, "the connection stays up")
				require.Equal(t, name, m.Name)
			}
		}
		const named = "too_large: apps/v1/deployments default/200KiB"
		drops.Require(t, named, named, named)
		require.Empty(t, links, "there was one connection only")
		require.InDelta(t, 3, testutil.ToFloat64(metrics.out[synchronizer.EventPut].frames), 0)
		require.InDelta(t, 6, testutil.ToFloat64(metrics.out[synchronizer.EventVerify].frames), 0)
		go func() { _ = client.Close(1000, "") }()
		_, err = server.Receive(t.Context())
		require.ErrorIs(t, err, synchronizer.ErrDisconnected)
		require.NoError(t, server.Close(1000, ""))
	})
}

// TestHostileFrame sends one frame of 100 MiB, whose length says so, to an end
// with a small maximum.
func TestHostileFrame(t *testing.T) {
	var drops linktest.Drops
	client, server := pair(t, linktest.Setup{MaxMessageBytes: 1 << 20, ServerDrop: drops.Drop}, (*httptest.Server).Start)
	const size = 100 << 20
	chunk := make([]byte, 64<<10)
	copy(chunk, `{"Depth":1,"Event":6,"Kind":{"Group":"apps","Version":"v1","Resource":"deployments"},"Name":"web","Namespace":"default","Object":"`)
	sent := make(chan error, 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		header := append([]byte{0x82, 0xff}, binary.BigEndian.AppendUint64(nil, size)...)
		_, err := client.conn.Write(append(header, 0, 0, 0, 0)) // a mask of zeros changes nothing
		for i := 0; i < size && err == nil; i += len(chunk) {
			_, err = client.conn.Write(chunk)
		}
		if err == nil {
			err = client.Send(t.Context(), linktest.Checksum("alive"))
		}
		sent <- err
	}()
	m, err := server.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, "alive", m.Name)
	require.NoError(t, <-sent)
	runtime.ReadMemStats(&after)
	// All that was ever allocated: buffers that doubled up to the maximum.
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(6<<20))
	drops.Require(t, "too_large: apps/v1/deployments default/web (104857600 bytes, maximum 1048576)")
}

// TestSilentClient checks the idle limit of the server, twice the ping
// interval, and that pings keep a connection alive for longer.
func TestSilentClient(t *testing.T) {
	t.Run("pings", func(t *testing.T) {
		metrics, err := NewMetrics(prometheus.NewRegistry())
		require.NoError(t, err)
		client, server := pair(t, linktest.Setup{PingInterval: 100 * time.Millisecond}, (*httptest.Server).Start)
		server.frames = metrics
		go func() {
			require.Eventually(t, func() bool { return testutil.ToFloat64(metrics.in[synchronizer.EventPing].frames) >= 5 }, linktest.Limit, time.Millisecond)
			require.NoError(t, client.Send(t.Context(), linktest.Checksum("x")))
		}()
		m, err := server.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, "x", m.Name)
	})
	t.Run("silence", func(t *testing.T) {
		s, links := testServer(t, linktest.Setup{PingInterval: 50 * time.Millisecond}, (*httptest.Server).Start)
		client, err := testDialer(s, linktest.Setup{}).Dial(t.Context()) // would ping after 50 s
		require.NoError(t, err)
		server := <-links
		start := time.Now()
		_, err = server.Receive(t.Context())
		require.ErrorIs(t, err, synchronizer.ErrDisconnected)
		require.GreaterOrEqual(t, time.Since(start), 90*time.Millisecond)
		require.NoError(t, server.Close(1000, ""))
		require.NoError(t, client.Close(1000, ""))
	})
}
