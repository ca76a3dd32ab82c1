// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/test/brokers"
)

// Readiness of server, ingester and API is that of the broker too: red while it is
// away, with its address, and green again by itself.
func TestReadyOnlyWithBroker(t *testing.T) {
	t.Parallel()
	broker := brokers.StartNATS(t, brokers.NATSOptions{})
	load := func() *config.Config {
		var variables config.Env
		for key, value := range map[string]string{
			"SYNCHRONIZER_BACKEND_DATADIR": t.TempDir(), "SYNCHRONIZER_BACKEND_LISTEN": "127.0.0.1:0",
			"SYNCHRONIZER_API_LISTEN": "127.0.0.1:0", "SYNCHRONIZER_BACKEND_HEALTHPORT": "0",
		} {
			variables = variables.With(key, value)
		}
		c, _, err := config.LoadUp(variables)
		require.NoError(t, err)
		overNATS(broker.URL, "synchronizer")(c)
		return c
	}
	whole, err := server.Open(t.Context(), app.NewProcess(newLog(t, "server")), load())
	require.NoError(t, err)
	background(t, "server", whole.Run)
	ingester, err := server.OpenIngester(t.Context(), app.NewProcess(newLog(t, "ingester")), load())
	require.NoError(t, err)
	background(t, "ingester", ingester.Run)

	pages := map[string]string{
		"server": healthOf(t, whole.HealthAddress()), "API": "http://" + whole.APIAddress(), "ingester": healthOf(t, ingester.HealthAddress()),
	}
	all := func(what string, status int, text string) {
		t.Helper()
		eventually(t, what, func() bool {
			for _, page := range pages {
				code, said := readPage(t, page+"/readyz")
				if code != status || !strings.Contains(said, text) {
					return false
				}
			}
			return true
		})
		for name, page := range pages {
			code, _ := readPage(t, page+"/healthz")
			require.Equal(t, http.StatusOK, code, "%s: it needs no restart", name)
		}
	}
	all("everything is ready", http.StatusOK, "ok")
	for range 2 {
		broker.Kill(t)
		all("nothing is ready without a broker", http.StatusServiceUnavailable, broker.URL)
		broker.Start(t)
		all("everything is ready again", http.StatusOK, "ok")
	}
}

// healthOf is the address of a health port on this machine.
func healthOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return "http://" + net.JoinHostPort("127.0.0.1", port)
}

// readPage reads a page, on a connection of its own; status is 0 if nobody answers.
func readPage(t testing.TB, page string) (status int, text string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body) // what came is compared
	return response.StatusCode, string(body)
}
