// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBothSidesChangeAtOnce(t *testing.T) {
	e := start(t)
	e.make(configmaps, `{"metadata":{"name":"c"},"data":{"a":"0","b":"0"}}`)
	// Somebody changes the same object between our reading and our writing, twice.
	times := 0
	e.cluster.meanwhile(func() {
		if times++; times <= 2 {
			e.alter(configmaps, "c", fmt.Sprintf(`{"metadata":{"labels":{"l%d":"x"}},"data":{"a":"theirs %d"}}`, times, times))
		}
	})
	e.puts(Applied, configmaps, "c", `{"metadata":{"labels":{"ours":"1"}},"data":{"a":"ours","b":"0"}}`)
	require.Len(t, e.cluster.updated, 3)
	require.JSONEq(t, `{"a":"ours","b":"0"}`, e.at(configmaps, "c", "data"), "the backend's change wins")
	require.JSONEq(t, `{"l1":"x","l2":"x","ours":"1"}`, e.at(configmaps, "c", "metadata", "labels"), "what exists stays")
}

func TestOthersAreAlwaysFaster(t *testing.T) {
	e := start(t)
	e.make(configmaps, `{"metadata":{"name":"c"},"data":{"a":"0"}}`)
	times := 0
	e.cluster.meanwhile(func() {
		times++
		e.alter(configmaps, "c", fmt.Sprintf(`{"data":{"b":"%d"}}`, times))
	})
	result := e.puts(Failed, configmaps, "c", `{"data":{"a":"1"}}`)
	require.Equal(t, ReasonConflict, result.Reason)
	require.Len(t, e.cluster.updated, e.options.Attempts, "bounded retries")
}

func TestObjectGoesWhileItIsChanged(t *testing.T) {
	e := start(t)
	e.make(configmaps, `{"metadata":{"name":"c"},"data":{"a":"0"}}`)
	e.cluster.meanwhile(func() {
		e.cluster.meanwhile(nil)
		_, err := server.Do(t.Context(), http.MethodDelete, e.path(configmaps, "c"), "", nil)
		require.NoError(t, err)
	})
	e.puts(Applied, configmaps, "c", `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1"}}`)
	require.JSONEq(t, `{"a":"1"}`, e.at(configmaps, "c", "data"))
}

func TestManyWritersOfOneObject(t *testing.T) {
	e := start(t)
	e.make(configmaps, `{"metadata":{"name":"c"},"data":{"a":"0"}}`)
	ctx, stop := context.WithCancel(t.Context())
	ended, writes := make(chan struct{}), 0
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ {
			_, err := server.Do(ctx, http.MethodPatch, e.path(configmaps, "c"), "application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, i))
			if err == nil {
				writes++
			}
		}
	}()
	e.options.Attempts, e.options.Pause = 200, time.Millisecond
	for i := range 20 {
		e.puts(Applied, configmaps, "c", fmt.Sprintf(`{"data":{"a":"%d"}}`, i+1))
		require.JSONEq(t, fmt.Sprintf(`{"a":"%d"}`, i+1), e.at(configmaps, "c", "data"))
	}
	stop()
	<-ended
	require.Positive(t, writes)
}
