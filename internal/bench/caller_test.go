// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// A caller goes on over the same connection, and over a new one after a refusal;
// each alert is valid JSON of the same size with a name of its own.
func TestCaller(t *testing.T) {
	statuses := []int{http.StatusAccepted, http.StatusTooManyRequests, http.StatusAccepted, http.StatusServiceUnavailable, http.StatusAccepted}
	var mu sync.Mutex
	stored, from := map[string]struct{}{}, map[string]struct{}{}
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		status := statuses[requests]
		requests++
		from[r.RemoteAddr] = struct{}{}
		body, err := io.ReadAll(r.Body)
		var alert struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err != nil || json.Unmarshal(body, &alert) != nil || len(body) != alertBytes || alert.Kind != "RuntimeAlerts" ||
			r.Method != http.MethodPost || r.URL.Path != "/apis/v1/kubescape.io/v1/runtimealerts" || r.Header.Get("Authorization") != "Bearer secret" {
			status = http.StatusBadRequest
		}
		if status == http.StatusTooManyRequests {
			w.Header().Set("Connection", "close")
		} else if requests != 5 { // the last one is lost, the one before stored without a 202
			stored[alert.Metadata.Name] = struct{}{}
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "text")
	}))
	defer server.Close()

	c := newCaller(strings.TrimPrefix(server.URL, "http://"), "ns", "secret", 7)
	defer c.hangUp()
	for range statuses {
		require.NoError(t, c.post(t.Context()))
	}
	for i, status := range statuses {
		require.Equal(t, status, c.posts[i].status)
	}
	require.Len(t, from, 2)
	require.Contains(t, stored, "alert-7-0")

	callers := []*caller{c}
	all, later := tally(callers), tally(callers, 2)
	require.Equal(t, []int{3, 1, 1, 3}, []int{all.accepted, all.later, all.others, len(all.times)})
	require.Equal(t, []int{2, 0, 1}, []int{later.accepted, later.later, later.others})
	require.Equal(t, receipt{lost: 1, repeated: 2, others: 1}, compare(callers, stored, len(stored)+2))
	stored["alert-7-1"] = struct{}{}
	require.Equal(t, receipt{lost: 1, refused: 1, others: 1}, compare(callers, stored, len(stored)))
}

// What breaks the connection is an alert without an answer; nobody who listens, or
// the end of the context, ends the caller.
func TestCallerWithoutAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	c := newCaller(strings.TrimPrefix(server.URL, "http://"), "ns", "secret", 0)
	require.NoError(t, c.post(t.Context()))
	require.Zero(t, c.posts[0].status)
	require.Nil(t, c.conn)
	require.Equal(t, 1, tally([]*caller{c}).others)

	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, c.post(ended), context.Canceled)
	server.Close()
	require.Error(t, c.post(t.Context()))
}

func TestClientSetupWithEndpoint(t *testing.T) {
	s := clientSetup{kinds: []synchronizer.Kind{configMaps}, strategy: strategyPatch, reports: reportKinds}
	text, err := s.config("host:1", "key", 2, 3)
	require.NoError(t, err)
	var sections map[string]map[string]any
	require.NoError(t, json.Unmarshal(text, &sections))
	require.Equal(t, 3.0, sections["httpEndpoint"]["serverPort"])
	require.Len(t, sections["httpEndpoint"]["resources"], 2)
	require.Len(t, sections["inCluster"]["resources"], 1)

	s.reports = nil
	text, err = s.config("host:1", "key", 2, 0)
	require.NoError(t, err)
	require.NotContains(t, string(text), "httpEndpoint")
}
