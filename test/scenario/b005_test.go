// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/kube"
)

// An API server that takes the request for a list as a stream (or any watch as
// one) gives three objects and never says that they are all. Nobody waits for
// that: what exists comes from a plain LIST, and a watch that is silent is given
// up; after a second here, usually after two minutes.
func TestB005ListAsAStreamNeverEnds(t *testing.T) {
	t.Parallel()
	s := newScripted(t, configMaps, services)
	bad, good := s.script.kinds["configmaps"], s.script.kinds["services"]
	var stream []string
	for _, name := range []string{"a", "b", "c"} {
		stream = append(stream, scriptedEvent("ADDED", bad.put(name, "3")))
		good.put(name, "3")
	}
	changed := make(chan struct{})
	bad.watch = func(n int, _ string, say func(string), until <-chan struct{}) {
		if n <= 2 || bad.requests("watch")[n-1].query.Has("sendInitialEvents") {
			for _, line := range stream {
				say(line)
			}
			<-until
			return
		}
		select {
		case <-changed:
			say(scriptedEvent("MODIFIED", bad.put("a", "9")))
			<-until
		case <-until:
		}
	}
	client := s.run(kube.Options{WatchSilence: time.Second}, nil)
	stored := func(kind string) int {
		set, err := s.backend.stored(t.Context(), "local", s.name)
		require.NoError(t, err)
		n := 0
		for key := range set {
			if key.Kind.Resource == kind {
				n++
			}
		}
		return n
	}
	eventually(t, "the kind that behaves is synchronized", func() bool { return stored("services") == 3 })
	eventually(t, "and so is the other", func() bool { return stored("configmaps") == 3 })
	close(changed)
	eventually(t, "its watch works in the end", func() bool { return len(bad.requests("watch")) >= 3 })
	s.agree(s.backend)
	eventually(t, "the change is stored", func() bool {
		row := s.backend.object(t, s.world, configMaps, "a")
		return row != nil && row.ResourceVersion == "9"
	})
	require.NotEmpty(t, s.log.said("/v1/configmaps", "nothing was heard"), "a log line")
	require.Positive(t, counter(client.registry, watchEnds, because("silent")))
	for _, k := range []*scriptedKind{bad, good} {
		require.Len(t, k.requests("list"), 1)
		for _, r := range k.requests("watch") {
			require.False(t, r.query.Has("sendInitialEvents"))
			require.Equal(t, "3", r.query.Get("resourceVersion"), "from the list on")
		}
	}
	require.LessOrEqual(t, kube.DefaultWatchSilence, 2*time.Minute)
	client.runs(t)
}
