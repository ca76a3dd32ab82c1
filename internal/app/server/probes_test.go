// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/store/postgres"
	"synchronizer/test/pgtest"
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
			ask := func(path string) (int, string) { return probe(t, c.Backend.HealthPort, path) }
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

// probe asks a health port; the code is 0 if nobody answers.
func probe(t *testing.T, port int, path string) (code int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+path, http.NoBody)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	response, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// TestDatabaseAwayAtStart: the process waits for it, says so without the password, and
// goes on by itself.
func TestDatabaseAwayAtStart(t *testing.T) {
	postgres := pgtest.Start(t)
	url := postgres.Database(t) + "&password=hunter2"
	postgres.Stop(t)
	c := configuration(t, t.TempDir())
	c.Backend.HealthPort = free(t)
	c.Store.Postgres.URL = config.Secret(url)
	type result struct {
		b   *Backend
		err error
	}
	done := make(chan result, 1)
	var log strings.Builder
	go func() {
		b, err := Open(t.Context(), app.NewProcess(&log), c)
		done <- result{b, err}
	}()
	require.Eventually(t, func() bool {
		code, text := probe(t, c.Backend.HealthPort, "/readyz")
		require.NotContains(t, text, "hunter2")
		return code == http.StatusServiceUnavailable && strings.Contains(text, "starting: opening the database: store.postgres.url: ") &&
			strings.Contains(text, "the database is away")
	}, limit, 10*time.Millisecond)
	postgres.Start(t)
	opened := <-done
	require.NoError(t, opened.err)
	require.Contains(t, log.String(), "the database cannot be used yet, trying again")
	require.NotContains(t, log.String(), "hunter2")
	untilTestEnds(t, opened.b)
}

// TestDatabaseThatRefuses is not waited for: what is wrong does not pass.
func TestDatabaseThatRefuses(t *testing.T) {
	c := configuration(t, t.TempDir())
	c.Store.Postgres.URL = config.Secret(pgtest.Start(t).Database(t) + "&dbname=none")
	_, err := Open(t.Context(), app.NewProcess(io.Discard), c)
	require.ErrorContains(t, err, "store.postgres.url: ")
	require.NotErrorIs(t, err, postgres.ErrAway)
}
