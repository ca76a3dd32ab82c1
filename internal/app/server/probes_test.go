// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
	"synchronizer/internal/config"
)

// TestProbesAreAnsweredWhileOpening: a process that waits for its broker lives, is not
// ready, and says why; when it gives up, nothing of it is left.
func TestProbesAreAnsweredWhileOpening(t *testing.T) {
	for name, open := range map[string]func(context.Context, *app.Process, *config.Config) (*Backend, error){
		"server": Open, "ingester": OpenIngester,
	} {
		t.Run(name, func(t *testing.T) {
			c := configuration(t, t.TempDir())
			c.Backend.HealthPort = free(t)
			c.Backend.MessageQueue.Type = config.QueueNATS
			c.Backend.MessageQueue.NATSConfig = &config.NATSConfig{Servers: []string{"nats://127.0.0.1:1"}, Prefix: "x", MaxBytes: 1 << 30}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := open(ctx, app.NewProcess(io.Discard), c)
				done <- err
			}()
			address := "127.0.0.1:" + strconv.Itoa(c.Backend.HealthPort)
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
			ask := func(path string) (int, string) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
				require.NoError(t, err)
				response, err := client.Do(r)
				if err != nil {
					return 0, err.Error()
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				return response.StatusCode, string(text)
			}
			require.Eventually(t, func() bool {
				code, text := ask("/readyz")
				return code == http.StatusServiceUnavailable && text == "not ready: starting: opening the queue\n"
			}, limit, 10*time.Millisecond)
			code, _ := ask("/healthz")
			require.Equal(t, http.StatusOK, code)
			_, text := ask("/metrics")
			require.Contains(t, text, "synchronizer_ready 0\n")
			code, _ = ask("/status")
			require.Equal(t, http.StatusNotFound, code)
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
			code, _ = ask("/healthz")
			require.Zero(t, code, "nobody listens any more")
		})
	}
}
