// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/discovery"
	"synchronizer/internal/link"
)

// certificate writes one for 127.0.0.1 and its key.
func certificate(t *testing.T) (certPath, keyPath string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	certPath, keyPath = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	require.NoError(t, os.WriteFile(certPath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return certPath, keyPath
}

// untilTestEnds runs a backend that was opened, and waits until it is ready.
func untilTestEnds(t *testing.T, b *Backend) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	require.Eventually(t, func() bool { return b.Ready() == nil }, limit, time.Millisecond)
}

// runBackend runs a backend of a configuration until the test ends; more is of it,
// as environment variables.
func runBackend(t *testing.T, more ...string) *Backend {
	t.Helper()
	b, err := Open(t.Context(), app.NewProcess(io.Discard), configuration(t, t.TempDir(), more...))
	require.NoError(t, err)
	untilTestEnds(t, b)
	return b
}

// TestFoundOverTLS: a client that knows the host of the backend and its authority
// finds it, and connects where it was told to.
func TestFoundOverTLS(t *testing.T) {
	certPath, keyPath := certificate(t)
	b := runBackend(t, "SYNCHRONIZER_BACKEND_TLS_CERTPATH", certPath, "SYNCHRONIZER_BACKEND_TLS_KEYPATH", keyPath,
		"SYNCHRONIZER_BACKEND_SERVICEDISCOVERY_APISERVER", "api.example.com")
	require.Equal(t, "wss://"+b.ClientsAddress(), b.ClientsURL())
	d := &link.Dialer{
		AccessKey: b.Secrets.AccessKey, CAFile: certPath,
		Hello: synchronizer.Hello{ClusterID: synchronizer.ClusterID{Account: LocalAccount, Cluster: "c"}},
	}
	c := discovery.Client{API: b.ClientsAddress(), HTTP: d.HTTPClient(), Logger: slog.New(slog.DiscardHandler)}
	var err error
	d.URL, err = c.Find(t.Context())
	require.NoError(t, err)
	require.Equal(t, b.ClientsURL(), d.URL)
	l, err := d.Dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Close(1000, ""))

	for version, want := range map[string]string{
		"v2": `"gateway":"","api-server":"api.example.com"`, "v3": `"event-receiver-http":"","api-server":"api.example.com"`,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.ClientsAddress()+"/api/"+version+"/servicediscovery", nil)
		require.NoError(t, err)
		response, err := d.HTTPClient().Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Contains(t, string(text), want)
	}

	d.AccessKey = "REPLACE_ME"
	_, err = d.Dial(t.Context())
	require.ErrorIs(t, err, synchronizer.ErrUnauthorized)
	require.ErrorContains(t, err, "placeholder")
	d.CAFile = ""
	_, err = d.Dial(t.Context())
	require.ErrorContains(t, err, "certificate")
	d.URL = strings.Replace(d.URL, "wss", "ws", 1)
	_, err = d.Dial(t.Context())
	require.ErrorContains(t, err, "HTTPS", "it says what is wrong")
}

// TestPublicURL is what clients are told, whatever they asked.
func TestPublicURL(t *testing.T) {
	b := runBackend(t, "SYNCHRONIZER_BACKEND_PUBLICURL", "wss://sync.example.com")
	require.Equal(t, "ws://"+b.ClientsAddress(), b.ClientsURL(), "on this machine")
	c := discovery.Client{API: "http://" + b.ClientsAddress(), HTTP: (&link.Dialer{}).HTTPClient(), Logger: slog.New(slog.DiscardHandler)}
	address, err := c.Find(t.Context())
	require.NoError(t, err)
	require.Equal(t, "wss://sync.example.com", address)
}

// TestAuthenticationServerDecides for a server that it is configured for.
func TestAuthenticationServerDecides(t *testing.T) {
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != "good" || r.URL.Query().Get("customer") != "acme" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer auth.Close()
	c := configuration(t, t.TempDir(), "SYNCHRONIZER_BACKEND_ACCESSKEYS", "")
	c.Backend.AccessKeys = ""
	c.Backend.AuthenticationServer.URL = auth.URL
	c.Backend.AuthenticationServer.HeaderToHeaderMapping = map[string]string{"X-API-KEY": "X-Key"}
	c.Backend.AuthenticationServer.HeaderToQueryParamMapping = map[string]string{"X-API-ACCOUNT": "customer"}
	b, err := Open(t.Context(), app.NewProcess(io.Discard), c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-done)
	}()
	require.Eventually(t, func() bool { return b.Ready() == nil }, limit, time.Millisecond)
	d := &link.Dialer{URL: b.ClientsURL(), AccessKey: "good", Hello: synchronizer.Hello{ClusterID: synchronizer.ClusterID{Account: "acme", Cluster: "c"}}}
	l, err := d.Dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Close(1000, ""))
	d.AccessKey = "bad"
	_, err = d.Dial(t.Context())
	require.ErrorIs(t, err, synchronizer.ErrUnauthorized)
}

// TestCertificateThatCannotBeUsed is a start error that names the key, and leaves
// nothing on the disk.
func TestCertificateThatCannotBeUsed(t *testing.T) {
	certPath, _ := certificate(t)
	_, anotherKey := certificate(t)
	dir := filepath.Join(t.TempDir(), "data")
	c := configuration(t, dir, "SYNCHRONIZER_BACKEND_TLS_CERTPATH", certPath, "SYNCHRONIZER_BACKEND_TLS_KEYPATH", anotherKey)
	_, err := Open(t.Context(), app.NewProcess(io.Discard), c)
	require.ErrorContains(t, err, "loading the certificate (backend.tls): reading "+certPath)
	require.NoDirExists(t, dir)
}
