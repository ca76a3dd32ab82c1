// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"synchronizer/internal/link/stock"
	"synchronizer/internal/queue"
)

// TestQueueRefuses: reading stops, what was read stays bounded, and after the
// timeout the client is sent away with 1013, and what it lost is counted.
func TestQueueRefuses(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake, UpwardBytes: 64 << 10}, func(s *Server) { s.publishTimeout = 500 * time.Millisecond })
	c := f.connect("a", "c")
	require.Eventually(t, func() bool { return len(fake.published()) == 2 }, limit, time.Millisecond)
	fake.refuse(true)

	// A frame that the server reads although the queue refuses must fit its bound;
	// the network takes some megabytes more, then the client is stuck.
	frame := strings.Replace(named("big"), `"Checksum":"c"`, `"Checksum":"`+strings.Repeat("c", 20<<10)+`"`, 1)
	stuck := make(chan int, 1)
	go func() {
		for n := 0; ; n++ {
			if c.ws.Write(t.Context(), websocket.MessageBinary, []byte(frame)) != nil {
				stuck <- n
				return
			}
		}
	}()
	require.Equal(t, websocket.StatusTryAgainLater, c.ended())
	_ = c.ws.CloseNow() // the writer may still be stuck
	require.Greater(t, <-stuck, 3)
	require.Eventually(t, func() bool { return f.registry.count() == 0 }, limit, time.Millisecond)
	require.Eventually(t, func() bool { return strings.Contains(f.log.String(), "client disconnected") }, limit, time.Millisecond)
	require.Contains(t, f.log.String(), "the queue did not take what a client had sent")
	require.Contains(t, f.drops.All(), "queue_refused: VerifyObject a/c configmaps demo/big")
	lost := f.produced("error", "VerifyObject")
	require.LessOrEqual(t, lost, 5.0, "64 KiB are 3 records, and one is in the hand of the reader")
	require.GreaterOrEqual(t, lost, 2.0)
	require.Zero(t, fake.waiting())

	// Meanwhile others are told to come later, and later are let in.
	response, _ := f.upgrade(nil)
	require.Equal(t, 503, response.StatusCode)
	fake.refuse(false)
	c = f.connect("a", "c")
	c.send(named("again"))
	require.Eventually(t, func() bool {
		published := fake.published()
		return published[len(published)-1].Property("name") == "again"
	}, limit, time.Millisecond)
}

// TestQueueIsAway: once that is known, clients need not wait for the queue to be sent
// away: one does, and the first that comes when it is back is let in.
func TestQueueIsAway(t *testing.T) {
	fake := newFakeQueue()
	known := func(f *fixture) bool {
		f.away.mu.Lock()
		defer f.away.mu.Unlock()
		return f.away.away
	}
	f := newFixture(t, Options{Queue: fake}, func(s *Server) { s.publishTimeout = time.Millisecond })
	require.False(t, known(f))
	fake.refuse(true)
	response, _ := f.upgrade(nil)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.True(t, known(f))

	f = newFixture(t, Options{Queue: fake}, func(s *Server) {
		s.publishTimeout = limit
		s.away.away = true
	})
	waited := make(chan int, 1)
	go func() {
		response, _ := f.upgrade(func(h http.Header) { h.Set("X-Api-Cluster", "patient") })
		waited <- response.StatusCode
	}()
	require.Eventually(t, func() bool { return fake.waiting() == 1 }, limit, time.Millisecond)
	for range 20 {
		response, _ = f.upgrade(nil)
		require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
		require.NotEmpty(t, response.Header.Get("Retry-After"))
	}
	require.Equal(t, 1, fake.waiting())
	require.Contains(t, f.log.String(), errAway.Error())
	fake.refuse(false)
	require.Equal(t, http.StatusSwitchingProtocols, <-waited)
	require.False(t, known(f))
	for i := range 20 {
		f.connect("a", fmt.Sprint(i))
	}
}

// TestQueueIsSlow: nothing is lost and nobody is sent away if the queue
// comes back in time.
func TestQueueIsSlow(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake, UpwardBytes: 8 << 10}, nil)
	c := f.connect("a", "c")
	require.Eventually(t, func() bool { return len(fake.published()) == 2 }, limit, time.Millisecond)
	fake.refuse(true)
	for i := range 100 {
		c.send(named(fmt.Sprint(i)))
	}
	require.Eventually(t, func() bool { return fake.waiting() == 1 }, limit, time.Millisecond)
	fake.refuse(false)
	require.NoError(t, c.ws.Close(1000, ""))
	require.Eventually(t, func() bool { return len(fake.published()) == 102 }, limit, time.Millisecond)
	for i, r := range fake.published()[2:] {
		require.Equal(t, fmt.Sprint(i), r.Property("name"))
		require.Equal(t, fmt.Sprint(i+1), r.Property(queue.PropertySeq))
	}
}

// TestShutdown closes links with 1001, after what was read is in the queue.
func TestShutdown(t *testing.T) {
	f := newFixture(t, Options{}, nil)
	c := f.connect("a", "c")
	idle := stock.Connect(t, f.url, stock.ClientOptions{Account: "b", Cluster: "c"})
	stuck := stock.Connect(t, f.url, stock.ClientOptions{Account: "d", Cluster: "c", HoldReading: true})
	for i := range 500 {
		c.send(named(fmt.Sprint(i)))
	}
	require.Equal(t, "0", property(f.object(), "name"))
	f.stop()
	require.Equal(t, websocket.StatusGoingAway, c.ended())
	<-idle.Done()
	require.Zero(t, f.registry.count())
	stuck.Close()
	// Contiguous from 1: nothing of what was read is missing.
	for want := 2; len(f.records) > 0; want++ {
		r := f.record()
		if r.Property(queue.PropertySeq) == "" {
			want--
			continue
		}
		require.Equal(t, fmt.Sprint(want), r.Property(queue.PropertySeq))
	}
	require.NotContains(t, f.log.String(), "the queue did not take")
}

// TestShutdownWhileTheQueueRefuses ends within the limit for flushing and says
// what was lost.
func TestShutdownWhileTheQueueRefuses(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake}, func(s *Server) { s.flushTimeout = 50 * time.Millisecond })
	c := f.connect("a", "c")
	require.Eventually(t, func() bool { return len(fake.published()) == 2 }, limit, time.Millisecond)
	fake.refuse(true)
	c.send(named("lost"))
	require.Eventually(t, func() bool { return fake.waiting() == 1 }, limit, time.Millisecond)
	upgrading := make(chan int, 1)
	go func() {
		response, _ := f.upgrade(nil)
		upgrading <- response.StatusCode
	}()
	require.Eventually(t, func() bool { return fake.waiting() == 2 }, limit, time.Millisecond)
	begin := time.Now()
	f.stop()
	require.Less(t, time.Since(begin), 10*time.Second)
	require.Equal(t, 503, <-upgrading)
	require.Equal(t, websocket.StatusGoingAway, c.ended())
	require.Equal(t, []string{"queue_refused: VerifyObject a/c configmaps demo/lost"}, f.drops.All())
	require.Equal(t, 1.0, f.produced("error", "VerifyObject"))
}

// TestReplacements: clients that push each other out are named in the log.
func TestReplacements(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake}, nil)
	for range maxReplacements + 2 {
		c := f.connect("a", "c")
		require.NotNil(t, c)
	}
	require.Eventually(t, func() bool { return strings.Contains(f.log.String(), "replace each other") }, limit, time.Millisecond)
}
