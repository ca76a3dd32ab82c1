// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/config"
	"synchronizer/internal/relay"
)

// B030, the part about replay: a time to live that is not positive or overflows is
// the default.
func TestB030ReplayTTL(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"-5": 300 * time.Second, "0": 300 * time.Second, "1": time.Second, "9223372036": 9223372036 * time.Second,
		"9223372037": 300 * time.Second, "9223372036854775807": 300 * time.Second,
	} {
		require.Equal(t, want, replayOf(replaySection(t, `{"enabled":true,"ttlSeconds":`+text+`}`)).TTL, text)
	}
}

func TestReplayLimits(t *testing.T) {
	require.Nil(t, replayOf(replaySection(t, `{}`)), "off by default")
	require.Nil(t, replayOf(replaySection(t, `{"ttlSeconds":5}`)))
	require.Equal(t, &relay.ReplayLimits{TTL: 300 * time.Second, MaxMessages: 10_000, MaxMessagesPerClient: 100, MaxBytes: 64 << 20},
		replayOf(replaySection(t, `{"enabled":true,"maxMessages":0,"maxMessagesPerClient":-1,"maxBytes":-1}`)))
	require.Equal(t, &relay.ReplayLimits{TTL: time.Second, MaxMessages: 2, MaxMessagesPerClient: 3, MaxBytes: 4},
		replayOf(replaySection(t, `{"enabled":true,"ttlSeconds":1,"maxMessages":2,"maxMessagesPerClient":3,"maxBytes":4}`)))
}

func replaySection(t *testing.T, section string) *config.Replay {
	t.Helper()
	dir := t.TempDir()
	text := `{"backend":{"listen":"127.0.0.1:0","replay":` + section + `}}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600))
	c, _, err := config.LoadServer(config.Env{}.With("CONFIG", dir))
	require.NoError(t, err)
	return &c.Backend.Replay
}
