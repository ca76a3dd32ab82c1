// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/kube"
)

// A watch gives an object and a bookmark and ends in order; then come three that
// end at once, one with an event of a type that nobody knows, and one that ends
// within a line. The clock is fast, so that the pauses between them are short.
func TestB083BookmarksEmptyStreamsAndSuddenEnds(t *testing.T) {
	t.Parallel()
	s := newScripted(t, configMaps)
	k := s.script.kinds["configmaps"]
	k.put("first", "100")
	k.watch = func(n int, _ string, say func(string), until <-chan struct{}) {
		switch n {
		case 1:
			say(scriptedEvent("ADDED", k.put("a", "101")))
			say(scriptedEvent("BOOKMARK", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"900","creationTimestamp":null}}`))
		case 2, 3, 4:
		case 5:
			say(scriptedEvent("FOO", `{"kind":"Foo","apiVersion":"example.org/v1","metadata":{"name":"foo","namespace":"default","resourceVersion":"905"}}`))
		case 6:
			say(`{"type":"MODIFIED","object":{"kind":"ConfigMap","metadata":{"name":"ha`)
		default:
			if n == 7 {
				say(scriptedEvent("MODIFIED", k.put("a", "910")))
			}
			<-until
		}
	}
	client := s.run(kube.Options{}, fastClock{epoch: time.Now()})
	eventually(t, "what came last is stored", func() bool {
		row := s.backend.object(t, s.world, configMaps, "a")
		return row != nil && row.ResourceVersion == "910"
	})
	s.agree(s.backend)
	client.runs(t)

	require.Len(t, k.requests("list"), 1)
	require.Equal(t, []string{"100", "900", "900", "900", "900", "900", "900"}, k.froms(), "resumed from the bookmark")
	events := func(typ string) float64 {
		return counter(client.registry, "synchronizer_agent_events_total", map[string]string{"type": typ})
	}
	require.InDelta(t, 1, events("bookmark"), 0)
	// Two objects are offered, asked for and sent; one changes.
	require.Equal(t, 2, client.frames("sent", "NewChecksum"))
	require.Equal(t, 3, client.frames("sent", "PutObject"), "nothing for the bookmark, and for FOO")
	require.Zero(t, client.frames("sent", "ObjectDeleted"))
	require.Equal(t, 2, s.backend.count(t.Context(), s.world))

	// Another try comes at once after a watch that has given something; then the
	// pauses grow: from 1 s, twice as long each, and varied by half of it.
	watches := k.requests("watch")
	for i, atLeast := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second} {
		pause := watches[i+2].at.Sub(watches[i+1].at)
		t.Logf("pause %d: %v", i+1, hurry*pause)
		require.GreaterOrEqual(t, hurry*pause, atLeast, "pause %d", i+1)
	}
	require.InDelta(t, 5, counter(client.registry, watchEnds, because("closed")), 0)
	require.InDelta(t, 1, counter(client.registry, watchEnds, because("truncated")), 0)
	require.InDelta(t, 1, counter(client.registry, "synchronizer_kube_unknown_watch_events_total", nil), 0)
	require.Len(t, s.log.said("FOO", "is passed over", "/v1/configmaps"), 1, "the unknown type is logged")
	failures := s.log.said("kind is not synchronized for now")
	require.Len(t, failures, 1, "a watch that ends in order is no failure")
	require.Contains(t, failures[0], "unexpected EOF", "the broken line is logged")
}
