// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/kube"
)

const goneStatus = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 100 (500)","reason":"Expired","code":410}`

// A watch is answered 200, and then says once that its version is too old.
func TestB081GoneInsideAStream(t *testing.T) {
	t.Parallel()
	s := newScripted(t, configMaps)
	k := s.script.kinds["configmaps"]
	k.put("stays", "99")
	k.put("goes", "100")
	expired := make(chan struct{})
	k.watch = func(_ int, from string, say func(string), until <-chan struct{}) {
		if from != "100" {
			<-until
			return
		}
		select {
		case <-expired:
			say(scriptedEvent("ERROR", goneStatus))
		case <-until:
		}
	}
	client := s.run(kube.Options{}, nil)
	s.agree(s.backend)
	k.put("comes", "400")
	k.remove("goes", "500")
	close(expired)
	s.agree(s.backend)

	require.Len(t, k.requests("list"), 2, "listed again, once")
	eventually(t, "it is watched", func() bool { return len(k.froms()) == 2 })
	require.Equal(t, []string{"100", "500"}, k.froms())
	require.Equal(t, 1, client.frames("sent", "ObjectDeleted"))
	row := s.backend.object(t, s.world, configMaps, "goes")
	require.NotNil(t, row)
	require.False(t, row.DeletedAt.IsZero())
	require.Equal(t, 3, client.frames("sent", "PutObject"), "the two of the first list and the one that came")
	require.Equal(t, 2, s.backend.count(t.Context(), s.world), "a Status is no object")
	require.InDelta(t, 1, counter(client.registry, watchEnds, because("gone")), 0)
	client.runs(t)
}

// Every version is too old for this server, for a minute: 6 s with a fast clock.
func TestB081GoneAlways(t *testing.T) {
	t.Parallel()
	s := newScripted(t, configMaps)
	k := s.script.kinds["configmaps"]
	k.put("stays", "100")
	k.watch = func(_ int, _ string, say func(string), _ <-chan struct{}) { say(scriptedEvent("ERROR", goneStatus)) }
	client := s.run(kube.Options{}, fastClock{epoch: time.Now()})
	s.agree(s.backend)
	k.put("comes", "500")
	const minute = time.Minute / hurry
	first := k.requests("watch")[0].at
	eventually(t, "a minute is over", func() bool { return time.Since(first) >= minute })
	for _, verb := range []string{"list", "watch"} {
		calls := 0
		for _, r := range k.requests(verb) {
			if r.at.Sub(first) < minute {
				calls++
			}
		}
		t.Logf("%d calls of %s in a minute", calls, verb)
		require.LessOrEqual(t, calls, 12, verb)
		require.GreaterOrEqual(t, calls, 2, verb)
	}
	s.agree(s.backend)
	client.runs(t)
}
