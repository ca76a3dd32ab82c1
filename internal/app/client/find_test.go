// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/discovery"
	"synchronizer/internal/kube"
	"synchronizer/internal/kube/recorded"
	"synchronizer/internal/link/linktest"
	"synchronizer/internal/link/stock"
)

// site is a backend of the field behind TLS, under names that only the proxy knows.
type site struct {
	server *stock.Server
	listen string // where it really is
	caFile string
	proxy  *linktest.Proxy
	dir    string
}

const (
	backendHost = "backend.example.test"
	apiHost     = "api.example.test"
)

// newSite makes it; tells is what its service discovery names.
func newSite(t *testing.T, tells discovery.Addresses) *site {
	t.Helper()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD"} {
		t.Setenv(name, "")
	}
	s := &site{server: stock.NewServer(t), proxy: linktest.NewProxy(t), dir: t.TempDir()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{backendHost, apiHost}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	s.caFile = filepath.Join(s.dir, "ca.pem")
	require.NoError(t, os.WriteFile(s.caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	server := httptest.NewUnstartedServer(discovery.Handler(tells, s.server))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	s.listen = server.Listener.Addr().String()
	s.proxy.User, s.proxy.Password = "u", "p@ss"
	s.proxy.Hosts = map[string]string{backendHost + ":443": s.listen, apiHost + ":443": s.listen}
	return s
}

// client runs a client until the test ends; settings are JSON members of inCluster
// that end with a comma, env is of its configuration.
func (s *site) client(t *testing.T, settings string, env ...string) (log *text, done chan error) {
	t.Helper()
	cluster, err := recorded.NewServer(recorded.GenerateSet(recorded.Deployments, 1, 1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "config.json"), []byte(`{"inCluster":{`+settings+`"caFile":"`+s.caFile+`","account":"a","accessKey":"k",
		"clusterName":"c","healthPort":0,"resources":[{"group":"apps","version":"v1","resource":"deployments","strategy":"copy"}]}}`), 0o600))
	e := config.Env{}.With("CONFIG", s.dir)
	for i := 0; i < len(env); i += 2 {
		e = e.With(env[i], env[i+1])
	}
	c, _, err := config.LoadClient(e)
	require.NoError(t, err)
	log, done = &text{}, make(chan error, 1)
	client, err := Open(t.Context(), app.NewProcess(log), c, kube.LoadOptions{Flag: kubeconfig(t, cluster.URL)}, true)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		done <- client.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return log, done
}

// Case B090: a forward proxy with a password, and reconnects through it. The
// direct route is blocked: nobody but the proxy knows the name of the backend.
func TestB090ProxyWithPasswordAndReconnect(t *testing.T) {
	s := newSite(t, discovery.Addresses{})
	t.Setenv("HTTPS_PROXY", "http://u:p%40ss@"+s.proxy.Host)
	log, _ := s.client(t, `"serverUrl":"wss://`+backendHost+`",`)
	for connected := range 4 {
		session := s.server.Next()
		require.Equal(t, "k", session.Header.Get("X-API-KEY"))
		require.Empty(t, session.Header.Get("Proxy-Authorization"), "the password is the proxy's business")
		session.Wait(func(f *stock.Frame) bool { return f.Event != nil && *f.Event == stock.Ping })
		require.Len(t, s.proxy.Connects(), connected+1)
		if connected < 3 {
			s.proxy.Cut()
		}
	}
	want := linktest.Connect{Target: backendHost + ":443", Authorization: "Basic dTpwQHNz"} // u:p@ss
	require.Equal(t, []linktest.Connect{want, want, want, want}, s.proxy.Connects())
	for _, secret := range []string{"p@ss", "p%40ss", "dTpwQHNz"} {
		require.NotContains(t, log.String(), secret)
	}
}

// TestFindServer: a client that knows nothing but API_URL, by way of a proxy that
// refuses at first.
func TestFindServer(t *testing.T) {
	s := newSite(t, discovery.Addresses{Synchronizer: "wss://" + backendHost})
	s.proxy.Refuse(http.StatusForbidden)
	t.Setenv("https_proxy", s.proxy.URL("http").String())
	log, _ := s.client(t, "", "API_URL", apiHost)
	require.Eventually(t, func() bool { return len(s.proxy.Connects()) >= 2 }, limit, time.Millisecond, "it asks again")
	require.Contains(t, log.String(), "the proxy answered HTTP 403 to CONNECT "+apiHost+":443")
	s.proxy.Refuse(0)
	require.Equal(t, "c", s.server.Next().Header.Get("X-API-CLUSTER"))
	connects := s.proxy.Connects()
	require.Equal(t, apiHost+":443", connects[len(connects)-2].Target)
	require.Equal(t, backendHost+":443", connects[len(connects)-1].Target)
	require.NotContains(t, log.String(), "p%40ss")
}

// TestFindServerOrder: what API_URL tells wins over inCluster.serverUrl, which is
// used when it tells nothing.
func TestFindServerOrder(t *testing.T) {
	t.Run("told", func(t *testing.T) {
		s := newSite(t, discovery.Addresses{Synchronizer: "wss://" + backendHost})
		t.Setenv("HTTPS_PROXY", s.proxy.URL("http").String())
		s.client(t, `"serverUrl":"ws://127.0.0.1:1",`, "API_URL", apiHost)
		s.server.Next()
	})
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"version":"v3","response":{}}`)) }))
	defer silent.Close()
	t.Run("not told", func(t *testing.T) {
		s := newSite(t, discovery.Addresses{})
		t.Setenv("HTTPS_PROXY", s.proxy.URL("http").String())
		log, _ := s.client(t, `"serverUrl":"wss://`+backendHost+`",`, "API_URL", silent.URL)
		s.server.Next()
		require.Contains(t, log.String(), "using inCluster.serverUrl")
	})
	t.Run("nowhere", func(t *testing.T) {
		s := newSite(t, discovery.Addresses{})
		_, done := s.client(t, "", "API_URL", silent.URL)
		select {
		case err := <-done:
			require.ErrorIs(t, err, discovery.ErrNotTold)
			require.ErrorContains(t, err, "set backend.publicUrl there, or inCluster.serverUrl here")
		case <-time.After(limit):
			require.FailNow(t, "the client does not end")
		}
	})
}
