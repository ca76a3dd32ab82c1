// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link/stock"
	"synchronizer/internal/queue"
)

// TestUnheard: what was written to a client after it was last heard is counted when
// its connection ends, and nothing else is.
func TestUnheard(t *testing.T) {
	kind := synchronizer.Kind{Version: "v1", Resource: "configmaps"}
	object := stock.Object{Kind: kind, Namespace: "demo", Name: "one", JSON: `{"metadata":{"name":"one","namespace":"demo"}}`}
	for name, test := range map[string]struct {
		told int
		end  func(f *fixture, c *stock.Client)
		want func(n int) []string
	}{
		"cut": {told: 3, end: func(_ *fixture, c *stock.Client) { c.Cut() }, want: unheardNames},
		"heard, then cut": {told: 3, end: func(f *fixture, c *stock.Client) {
			c.Set(object)
			r := f.object()
			require.Equal(t, "one", r.Property(queue.PropertyName))
			c.Cut()
		}, want: func(int) []string { return nil }},
		"says farewell":     {told: 3, end: func(_ *fixture, c *stock.Client) { c.Close() }, want: func(int) []string { return nil }},
		"server shuts down": {told: 3, end: func(f *fixture, _ *stock.Client) { f.stop() }, want: func(int) []string { return nil }},
		"more than are named": {told: mostUnheard + 2, end: func(_ *fixture, c *stock.Client) { c.Cut() }, want: func(n int) []string {
			return append(unheardNames(mostUnheard), "client_unheard: one of 2 messages more for a/c", "client_unheard: one of 2 messages more for a/c")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			// On a busy machine a client needs longer for its farewell than servers wait.
			f := newFixture(t, Options{}, func(s *Server) { s.farewellTimeout = limit })
			c := stock.Connect(t, f.url, stock.ClientOptions{Account: "a", Cluster: "c", Kinds: map[synchronizer.Kind]stock.Strategy{kind: stock.Copy}})
			require.Eventually(t, func() bool { return f.registry.count() == 1 }, limit, time.Millisecond)
			for i := range test.told {
				f.down(ask("a", "c", fmt.Sprint(i)))
			}
			require.Eventually(t, func() bool { return len(c.Received()) == test.told }, limit, time.Millisecond)
			require.Empty(t, f.drops.All(), "while it is connected")
			test.end(f, c)
			require.Eventually(t, func() bool { return strings.Contains(f.log.String(), "client disconnected") }, limit, time.Millisecond)
			require.Equal(t, test.want(test.told), f.drops.All())
		})
	}
}

// TestRefusedIsNotUnheard: what the link could not carry is counted as that only.
func TestRefusedIsNotUnheard(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake, Link: linkOptions(1000)}, nil)
	c := f.connect("a", "c")
	require.Eventually(t, func() bool { return f.registry.count() == 1 }, limit, time.Millisecond)
	large := strings.Repeat("x", 2000)
	for _, records := range [][]synchronizer.Record{
		{command(synchronizer.EventPut, "large-1", large)},
		{command(synchronizer.EventDelete, "one", ""), command(synchronizer.EventPut, "large-2", large), command(synchronizer.EventDelete, "two", ""), command(synchronizer.EventPut, "large-3", large)},
	} {
		fake.tail <- records
	}
	require.Equal(t, []string{"one", "two"}, c.names(2))
	require.Eventually(t, func() bool { return len(f.drops.All()) == 3 }, limit, time.Millisecond)
	require.NoError(t, c.ws.CloseNow())
	require.Eventually(t, func() bool { return strings.Contains(f.log.String(), "client disconnected") }, limit, time.Millisecond)
	drops := f.drops.All()
	require.Len(t, drops, 5)
	for i, drop := range drops[:3] {
		require.Regexp(t, fmt.Sprintf("^too_large: to the peer: .*large-%d", i+1), drop)
	}
	require.Equal(t, []string{
		"client_unheard: DeleteObject a/c /v1/configmaps demo/one", "client_unheard: DeleteObject a/c /v1/configmaps demo/two",
	}, drops[3:])
}

func unheardNames(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("client_unheard: GetObject a/c /v1/configmaps demo/%d", i))
	}
	return list
}
