// SPDX-License-Identifier: Apache-2.0

package kubetest_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/test/kubetest"
)

func TestRegisterAPI(t *testing.T) {
	kubetest.Require(t, startErr)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/apis/storage.example.org/v1" {
			_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"storage.example.org/v1","resources":[]}`)
			return
		}
		_, _ = fmt.Fprintf(w, "%s as %s through %s", r.URL.Path, r.Header.Get("X-Remote-User"), r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)

	require.NoError(t, shared.RegisterAPI(t.Context(), "storage.example.org", "v1", server.Listener.Addr().String()))
	answer, err := shared.Get(t.Context(), "/apis/storage.example.org/v1/things")
	require.NoError(t, err)
	require.Equal(t, "/apis/storage.example.org/v1/things as admin through front-proxy-client", string(answer))
}
