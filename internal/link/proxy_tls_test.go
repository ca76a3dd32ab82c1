// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/link/linktest"
)

// TestTLSProxy: a proxy that is spoken to over TLS, in front of a server with TLS.
// The authorities of both are in one file, and neither is trusted without it.
func TestTLSProxy(t *testing.T) {
	proxy, certificate := linktest.NewTLSProxy(t)
	proxy.User, proxy.Password = "u", "p@ss"
	server, links := testServer(t, linktest.Setup{}, (*httptest.Server).StartTLS)
	d := testDialer(server, linktest.Setup{})
	d.Proxy = func(*url.URL) (*url.URL, error) { return proxy.URL("https"), nil }
	_, err := d.Dial(t.Context())
	require.ErrorContains(t, err, "through proxy https://u:xxxxx@"+proxy.Host)
	require.ErrorContains(t, err, "certificate")
	require.Empty(t, proxy.Connects(), "nothing is shown to a proxy that is not trusted")

	d.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	bundle := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})...)
	require.NoError(t, os.WriteFile(d.CAFile, bundle, 0o600))
	use(t, d, links)
	require.Equal(t, []linktest.Connect{{Target: server.Listener.Addr().String(), Authorization: "Basic dTpwQHNz"}}, proxy.Connects())
}

// TestProxyRefuses: what the proxy answered is told, and never what was shown to it.
func TestProxyRefuses(t *testing.T) {
	proxy := linktest.NewProxy(t)
	proxy.User, proxy.Password = "u", "p@ss"
	server, _ := testServer(t, linktest.Setup{}, (*httptest.Server).Start)
	d := testDialer(server, linktest.Setup{})
	d.Proxy = func(*url.URL) (*url.URL, error) { return proxy.URL("http"), nil }
	for _, status := range []int{403, 407, 502} {
		proxy.Refuse(status)
		_, err := d.Dial(t.Context())
		require.ErrorContains(t, err, fmt.Sprint("the proxy answered HTTP ", status))
		require.NotContains(t, err.Error(), "p@ss")
		require.NotContains(t, err.Error(), "p%40ss")
	}
	proxy.Refuse(0)
	proxy.Cut()
	proxy.Hosts = map[string]string{server.Listener.Addr().String(): "127.0.0.1:1"} // the server is away
	_, err := d.Dial(t.Context())
	require.ErrorContains(t, err, "the proxy answered HTTP 502 to CONNECT")
}

// TestHTTPClient reaches the backend as Dial does, and goes nowhere else.
func TestHTTPClient(t *testing.T) {
	proxy := linktest.NewProxy(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/from" {
			http.Redirect(w, r, "/to", http.StatusFound)
		}
	}))
	defer server.Close()
	d := &Dialer{Proxy: func(target *url.URL) (*url.URL, error) {
		if strings.HasPrefix(target.Path, "/direct") { // by a real environment: NO_PROXY
			return nil, nil
		}
		return proxy.URL("http"), nil
	}}
	get := func(path string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		response, err := d.HTTPClient().Do(r)
		if err == nil {
			require.NoError(t, response.Body.Close())
		}
		return response, err
	}
	_, err := get("/x")
	require.ErrorContains(t, err, "certificate")
	d.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	_, err = get("/x")
	require.ErrorContains(t, err, "reading the server's CA")
	require.NoError(t, os.WriteFile(d.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	response, err := get("/from")
	require.NoError(t, err)
	require.Equal(t, http.StatusFound, response.StatusCode, "redirects are not followed")
	require.Len(t, proxy.Connects(), 2)
	_, err = get("/direct")
	require.NoError(t, err)
	require.Len(t, proxy.Connects(), 2)
}
