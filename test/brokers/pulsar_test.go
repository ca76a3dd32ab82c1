// SPDX-License-Identifier: Apache-2.0

package brokers

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPulsarKeepsItsDataAndAddresses over an orderly end and SIGKILL, with tokens.
func TestPulsarKeepsItsDataAndAddresses(t *testing.T) {
	p := StartPulsar(t, PulsarOptions{Token: true, MaxMessageSize: 64 << 10})
	p.Admin(t, http.MethodPut, "tenants/kept", `{"allowedClusters":["`+PulsarCluster+`"]}`)
	before := []string{p.URL, p.TLSURL, p.AdminURL}
	for name, end := range map[string]func(testing.TB){"stopped": p.Stop, "killed": p.Kill} {
		end(t)
		require.False(t, p.process.running(), name)
		p.Start(t)
		require.Contains(t, p.Admin(t, http.MethodGet, "tenants", ""), `"kept"`, name)
	}
	require.Equal(t, before, []string{p.URL, p.TLSURL, p.AdminURL})

	// Authorization is on: a role without rights may not do this.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.AdminURL+"/admin/v2/tenants", nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+p.Token(t, "somebody"))
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, response.StatusCode)
	require.True(t, strings.HasPrefix(p.URL, "pulsar://127.0.0.1:"))
}
