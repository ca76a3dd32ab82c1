// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"synchronizer"
)

// Each way in which a watch can end is counted as itself; those of connections
// are in the matrix of test/scenario.
func TestWatchEnds(t *testing.T) {
	const added = `{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"5"}}}` + "\n"
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		reason  string
		invalid bool // the watch would give it again
	}{
		"in order":                 {handler: answers(200, added), reason: "closed"},
		"410":                      {handler: answers(410, ""), reason: "gone"},
		"410 in the stream":        {handler: answers(200, `{"type":"ERROR","object":{"kind":"Status","code":410}}`), reason: "gone"},
		"500 in the stream":        {handler: answers(200, `{"type":"ERROR","object":{"kind":"Status","code":500}}`), reason: "error"},
		"403":                      {handler: answers(403, ""), reason: "refused"},
		"429":                      {handler: answers(429, ""), reason: "refused"},
		"500":                      {handler: answers(500, ""), reason: "refused"},
		"half a line":              {handler: answers(200, added+added[:40]), reason: "truncated"},
		"not JSON":                 {handler: answers(200, added+"garbage\n"), reason: "unreadable", invalid: true},
		"event without object":     {handler: answers(200, added+`{"type":"ADDED"}`), reason: "unreadable", invalid: true},
		"event without type":       {handler: answers(200, added+`{"object":{}}`), reason: "unreadable", invalid: true},
		"object without name":      {handler: answers(200, added+`{"type":"ADDED","object":{"metadata":{}}}`), reason: "unreadable", invalid: true},
		"bookmark without version": {handler: answers(200, added+`{"type":"BOOKMARK","object":{"metadata":{}}}`), reason: "unreadable", invalid: true},
		"silence":                  {handler: silent(added), reason: "silent"},
		"no answer":                {handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, reason: "unanswered"},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, Options{WatchSilence: 100 * time.Millisecond}, test.handler)
			err := c.Watch(t.Context(), configMaps, "1", ignoreEvent)
			require.Equal(t, test.invalid, err != nil && strings.Contains(err.Error(), synchronizer.ErrInvalid.Error()), "%v", err)
			if test.invalid {
				require.ErrorIs(t, err, synchronizer.ErrInvalid)
			}
			require.InDelta(t, 1, testutil.ToFloat64(c.metrics.watchEnds.WithLabelValues(test.reason)), 0, "%v", err)
			require.Equal(t, 1, testutil.CollectAndCount(c.metrics.watchEnds))
		})
	}
}

func TestUnknownEventsAreCountedAndLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	const foo = `{"type":"FOO","object":{"metadata":{"name":"a"}}}`
	c := serve(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, answers(200, foo+"\n"+foo+"\n"))
	require.NoError(t, c.Watch(t.Context(), configMaps, "1", func(e synchronizer.WatchEvent) error {
		t.Errorf("it is an event of type %v", e.Type)
		return nil
	}))
	require.InDelta(t, 2, testutil.ToFloat64(c.metrics.unknown), 0)
	require.Equal(t, 1, strings.Count(log.String(), "FOO"))
}

func TestWatchTime(t *testing.T) {
	var asked []string
	c := serve(t, Options{WatchTime: 3 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("timeoutSeconds"))
		_, _ = io.WriteString(w, "")
	})
	for range 20 {
		require.NoError(t, c.Watch(t.Context(), configMaps, "1", ignoreEvent))
	}
	for _, text := range asked {
		seconds, err := strconv.Atoi(text)
		require.NoError(t, err)
		require.GreaterOrEqual(t, seconds, 3)
		require.LessOrEqual(t, seconds, 6)
	}
}
