// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestServeHostileRequests: what a request may cost before anybody knows who sends
// it is bounded, in bytes and in time.
func TestServeHostileRequests(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", "test")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	srv := newServer(nil)
	require.Equal(t, 10*time.Second, bodyTimeout)
	srv.Handler = boundBodies(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }), 50*time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- serve(ctx, srv, l, time.Second) }()
	defer func() {
		cancel()
		require.NoError(t, <-done)
	}()
	for name, test := range map[string]struct {
		request string
		status  int
	}{
		"a body that never comes":           {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n", 401},
		"half a body":                       {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf", 401},
		"a body in parts that never end":    {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", 401},
		"a header that is larger than ours": {"GET / HTTP/1.1\r\nHost: h\r\nX-API-ACCOUNT: " + strings.Repeat("a", 80<<10) + "\r\n\r\n", 431},
		"a path that is":                    {"GET /" + strings.Repeat("a", 80<<10) + " HTTP/1.1\r\nHost: h\r\n\r\n", 431},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", l.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second))) // only if it hangs
			_, err = io.WriteString(c, test.request)
			require.NoError(t, err)
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err, "it is answered")
			require.Equal(t, test.status, response.StatusCode)
			require.True(t, response.Close, "its connection ends")
			require.NoError(t, response.Body.Close())
		})
	}
}

// TestServeBodies: who sends a body in time has the connection for more, and a
// request without one has all the time there is.
func TestServeBodies(t *testing.T) {
	const short = 50 * time.Millisecond
	server := httptest.NewUnstartedServer(nil)
	server.Config = newServer(nil)
	server.Config.Handler = boundBodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			select {
			case <-r.Context().Done():
			case <-time.After(4 * short): // longer than a body may take
			}
		}
		text, err := io.ReadAll(r.Body)
		if err != nil || r.Context().Err() != nil {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = w.Write(text)
	}), short)
	server.Start()
	defer server.Close()
	for _, body := range []string{"hello", "", "again"} {
		method := http.MethodPost
		if body == "" {
			method = http.MethodGet
		}
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader(body))
		require.NoError(t, err)
		response, err := server.Client().Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 200, response.StatusCode)
		require.Equal(t, body, string(text))
	}
}
