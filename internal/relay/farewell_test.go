// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link"
)

// TestFarewellBehindTheRest: a server that stops cuts nothing off that the network has
// taken and the client has yet to read, also while the client goes on speaking.
func TestFarewellBehindTheRest(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake, BacklogBytes: 64 << 20, Link: link.Options{Limits: link.Limits{CloseTimeout: time.Microsecond}}}, func(s *Server) {
		s.farewellTimeout = limit
	})
	c := f.connect("a", "c")
	require.Eventually(t, func() bool { return f.registry.count() == 1 }, limit, time.Millisecond)
	conn := f.registry.find(synchronizer.ClusterID{Account: "a", Cluster: "c"})
	var records []synchronizer.Record
	var want []string
	for i := range 200 {
		want = append(want, fmt.Sprint(i))
		records = append(records, command(synchronizer.EventDelete, want[i], ""))
	}
	fake.tail <- records
	require.Eventually(t, func() bool { return f.delivered() == float64(len(want)) }, limit, time.Millisecond)
	require.NoError(t, conn.down.flush(t.Context()))
	stopped := make(chan struct{})
	go func() { f.stop(); close(stopped) }()
	<-f.draining.Done()
	for range 100 {
		_ = c.ws.Write(t.Context(), websocket.MessageBinary, []byte(named("late"))) // it may be too late
	}
	require.Equal(t, want, c.names(len(want)))
	require.Equal(t, websocket.StatusGoingAway, c.ended())
	<-stopped
	require.Empty(t, f.drops.All())
}
