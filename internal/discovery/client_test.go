// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// trips answers requests without a network.
type trips func(*http.Request) (*http.Response, error)

func (t trips) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func respond(status int, body string, header ...string) (*http.Response, error) {
	response := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i < len(header); i += 2 {
		response.Header.Set(header[i], header[i+1])
	}
	return response, nil
}

// TestFindUntilAnAnswer: refused, redirected, garbage, too long; with delays that
// grow to a minute and are jittered, for as long as it takes.
func TestFindUntilAnAnswer(t *testing.T) {
	answers := []func() (*http.Response, error){
		func() (*http.Response, error) { return nil, fmt.Errorf("connection refused") },
		func() (*http.Response, error) { return respond(503, "away") },
		func() (*http.Response, error) { return respond(302, "", "Location", "https://elsewhere.example/x") },
		func() (*http.Response, error) { return respond(200, "<html>") },
		func() (*http.Response, error) {
			return respond(200, `{"version":"v9","response":{"synchronizer":"wss://x"}}`)
		},
		func() (*http.Response, error) {
			return respond(200, `{"version":"v3","response":{"synchronizer":"https://x"}}`)
		},
		func() (*http.Response, error) {
			return respond(200, `{"version":"v3","response":{"synchronizer":"wss://u:p@x"}}`)
		},
		func() (*http.Response, error) {
			return respond(200, `{"version":"v3","x":"`+strings.Repeat("x", answerBytes)+`"}`)
		},
	}
	const outage = 40
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Time
		var log bytes.Buffer
		c := Client{
			API: "http://api.example.com:8443/base/", Logger: slog.New(slog.NewTextHandler(&log, nil)),
			HTTP: &http.Client{Transport: trips(func(r *http.Request) (*http.Response, error) {
				require.Equal(t, "http://api.example.com:8443/base/api/v3/servicediscovery", r.URL.String())
				asked = append(asked, time.Now())
				switch n := len(asked); {
				case n <= len(answers):
					return answers[n-1]()
				case n <= outage:
					return answers[0]()
				}
				return respond(200, `{"version":"v3","more":1,"response":{"synchronizer":"ws://sync.example.com/x","storage":null}}`)
			}), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		}
		address, err := c.Find(t.Context())
		require.NoError(t, err)
		require.Equal(t, "ws://sync.example.com/x", address)
		require.Len(t, asked, outage+1)
		var longest time.Duration
		for i := 1; i < len(asked); i++ {
			longest = max(longest, asked[i].Sub(asked[i-1]))
		}
		require.Greater(t, longest, 10*time.Second)
		require.LessOrEqual(t, longest, time.Minute)
		require.LessOrEqual(t, asked[1].Sub(asked[0]), 500*time.Millisecond)
		for _, said := range []string{
			"connection refused", "HTTP 503", "elsewhere.example", "version v2 or v3", "is not like wss://host", "longer than 65536",
		} {
			require.Contains(t, log.String(), said)
		}
	})
}

func TestFindEnds(t *testing.T) {
	answering := func(body string) *http.Client {
		return &http.Client{Transport: trips(func(*http.Request) (*http.Response, error) { return respond(200, body) })}
	}
	discard := slog.New(slog.DiscardHandler)
	_, err := (&Client{API: "h", HTTP: answering(`{"version":"v3","response":{}}`), Logger: discard}).Find(t.Context())
	require.ErrorIs(t, err, ErrNotTold)
	for _, bad := range []string{"", "ftp://h", "https://", "h/%zz"} {
		_, err = (&Client{API: bad, Logger: discard}).Find(t.Context())
		require.ErrorIs(t, err, synchronizer.ErrInvalid, bad)
		require.ErrorContains(t, err, "API_URL")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = (&Client{API: "h", HTTP: http.DefaultClient, Logger: discard}).Find(ctx)
	require.ErrorIs(t, err, context.Canceled)

	var log bytes.Buffer
	plain := &Client{API: "h", HTTP: answering(`{"version":"v2","response":{"synchronizer":"ws://x"}}`), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	address, err := plain.Find(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ws://x", address)
	require.Contains(t, log.String(), "in the clear")
	for _, scheme := range []string{"wss://h:1", "h:1"} {
		address, err = (&Client{API: "h", HTTP: answering(`{"version":"v2","response":{"synchronizer":"` + scheme + `"}}`), Logger: discard}).Find(t.Context())
		require.NoError(t, err)
		require.Equal(t, "wss://h:1", address)
	}
}

// TestFindWhatHandlerTells: both halves together.
func TestFindWhatHandlerTells(t *testing.T) {
	server := httptest.NewTLSServer(Handler(Addresses{}, http.NotFoundHandler()))
	defer server.Close()
	c := &Client{API: strings.TrimPrefix(server.URL, "https://"), HTTP: server.Client(), Logger: slog.New(slog.DiscardHandler)}
	address, err := c.Find(t.Context())
	require.NoError(t, err)
	require.Equal(t, "wss://"+server.Listener.Addr().String(), address)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":"v3","response":{"synchronizer":"wss://h"}}`))
	f.Add([]byte(`{"version":"v2","response":{"synchronizer":"h:1/x"}}`))
	f.Add([]byte(`{"version":"v2","response":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		address, err := parse(text)
		if err == nil && !strings.HasPrefix(address, "ws://") && !strings.HasPrefix(address, "wss://") && !strings.HasPrefix(strings.ToLower(address), "ws") {
			t.Fatalf("%q", address)
		}
	})
}
