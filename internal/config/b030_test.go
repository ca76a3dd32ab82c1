// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestB030SecondsAreGuarded: what overflows, with its jitter or without, is ignored with
// a warning or becomes the default; what is off is off silently.
func TestB030SecondsAreGuarded(t *testing.T) {
	const ignored = "backend.reconciliationTaskConfig.reconcileAfterConnectSeconds: too large for the delay plus jitter: ignored"
	for text, want := range map[string]struct {
		delay    time.Duration
		warnings []string
	}{
		"-1":                  {0, nil},
		"0":                   {0, nil},
		"1":                   {time.Second, nil},
		"7600000000":          {7_600_000_000 * time.Second, nil},
		"7700000000":          {0, []string{ignored}},
		"9223372037":          {0, []string{ignored}},
		"9223372036854775807": {0, []string{ignored}},
	} {
		backend := `"listen":"127.0.0.1:0","reconciliationTaskConfig":{"reconcileAfterConnectSeconds":` + text + `}`
		problems, warnings := findings(t, backend)
		require.Empty(t, problems, text)
		require.Equal(t, want.warnings, warnings, text)
		c, _, err := LoadServer(variables(folder(t, "config.json", `{"backend":{`+backend+`}}`)))
		require.NoError(t, err)
		delay, ok := c.Backend.ReconciliationTask.ReconcileAfterConnectSeconds.Duration()
		require.True(t, ok, text)
		require.Equal(t, want.delay, delay, text)
		require.Positive(t, delay+delay/5+1, text)
	}
	for _, text := range []string{"-5", "0", "9223372037"} {
		c, warnings, err := LoadServer(variables(folder(t, "config.json", fmt.Sprintf(`{"backend":{"listen":"127.0.0.1:0","replay":{"ttlSeconds":%s}}}`, text))))
		require.NoError(t, err)
		require.Equal(t, Seconds(300), c.Backend.Replay.TTLSeconds, text)
		require.NotContains(t, warnings.String(), "ttlSeconds")
		c, _, err = LoadClient(variables(folder(t, "config.json", fmt.Sprintf(
			`{"inCluster":{"serverUrl":"wss://h","account":"a","accessKey":"k","clusterName":"c","resources":[{"version":"v1","resource":"pods"}],"deduplication":{"ttlSeconds":%s}}}`, text))))
		require.NoError(t, err)
		require.Equal(t, Seconds(600), c.InCluster.Deduplication.TTLSeconds, text)
	}
}
