// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var all = Addresses{
	EventReceiverHTTP: "er-http", EventReceiverWS: "er-ws", Gateway: "gw", APIServer: "api<&>", Metrics: "m", Storage: "s",
}

// TestAnswers are the documents byte by byte: clients exist that read them.
func TestAnswers(t *testing.T) {
	public := all
	public.Synchronizer = "wss://public.example.com/path"
	for name, test := range map[string]struct {
		tell   Addresses
		path   string
		change func(*http.Request)
		want   string
	}{
		"v3": {path: PathV3, tell: all, want: `{"version":"v3","response":{"event-receiver-http":"er-http","api-server":"api<&>","metrics":"m","synchronizer":"ws://backend.example:8080","storage":"s"}}`},
		"v2": {path: PathV2, tell: all, want: `{"version":"v2","response":{"event-receiver-http":"er-http","event-receiver-ws":"er-ws","gateway":"gw","api-server":"api<&>","metrics":"m","synchronizer":"ws://backend.example:8080"}}`},
		"nothing configured": {
			path: PathV3, want: `{"version":"v3","response":{"event-receiver-http":"","api-server":"","metrics":"","synchronizer":"ws://backend.example:8080","storage":""}}`,
		},
		"over TLS": {
			path: PathV3, change: func(r *http.Request) { r.TLS = &tls.ConnectionState{} },
			want: `{"version":"v3","response":{"event-receiver-http":"","api-server":"","metrics":"","synchronizer":"wss://backend.example:8080","storage":""}}`,
		},
		"behind TLS, asked with a slash and a query": {
			path: PathV2 + "/?x=1", change: func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "HTTPS, http") },
			want: `{"version":"v2","response":{"event-receiver-http":"","event-receiver-ws":"","gateway":"","api-server":"","metrics":"","synchronizer":"wss://backend.example:8080"}}`,
		},
		"behind a proxy without TLS": {
			path: PathV2, change: func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "http,https") },
			want: `{"version":"v2","response":{"event-receiver-http":"","event-receiver-ws":"","gateway":"","api-server":"","metrics":"","synchronizer":"ws://backend.example:8080"}}`,
		},
		"public address": {
			path: PathV3, tell: public, change: func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") },
			want: `{"version":"v3","response":{"event-receiver-http":"er-http","api-server":"api<&>","metrics":"m","synchronizer":"wss://public.example.com/path","storage":"s"}}`,
		},
		"without a host": {
			path: PathV3, change: func(r *http.Request) { r.Host = "" },
			want: `{"version":"v3","response":{"event-receiver-http":"","api-server":"","metrics":"","synchronizer":"","storage":""}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://backend.example:8080"+test.path, nil)
			r.TLS = nil
			if test.change != nil {
				test.change(r)
			}
			w := httptest.NewRecorder()
			Handler(test.tell, http.NotFoundHandler()).ServeHTTP(w, r)
			require.Equal(t, 200, w.Code)
			require.Equal(t, test.want+"\n", w.Body.String())
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		})
	}
}

// TestHandlerLeavesTheRest to whoever accepts clients, who may connect on any path.
func TestHandlerLeavesTheRest(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, test := range []struct {
		method, path, upgrade string
		status                int
	}{
		{"GET", "/", "", 418},
		{"GET", "/api/v3/servicediscovery/x", "", 418},
		{"GET", "/api/v1/servicediscovery", "", 418},
		{"GET", PathV3, "websocket", 418},
		{"GET", PathV3, "WebSocket", 418},
		{"GET", PathV3, "h2c", 200},
		{"GET", "/" + PathV3, "", 200},
		{"GET", PathV2, "", 200},
		{"HEAD", PathV2, "", 200},
		{"POST", PathV3, "", 405},
	} {
		r := httptest.NewRequestWithContext(t.Context(), test.method, test.path, nil)
		if test.upgrade != "" {
			r.Header.Set("Upgrade", test.upgrade)
		}
		w := httptest.NewRecorder()
		Handler(Addresses{}, next).ServeHTTP(w, r)
		require.Equal(t, test.status, w.Code, test)
		_, err := io.ReadAll(w.Body)
		require.NoError(t, err)
	}
}
