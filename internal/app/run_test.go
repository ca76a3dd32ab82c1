// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/telemetry"
)

// ask gives status and text of a route, 0 where nobody answers.
func ask(t *testing.T, address, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
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

// TestProbesWhileAProcessEnds: from the signal on it is not ready, and it is alive
// and says so until the last part has ended and what it had is released.
func TestProbesWhileAProcessEnds(t *testing.T) {
	p := NewProcess(io.Discard)
	l, err := telemetry.Listen(t.Context(), "127.0.0.1:0", "")
	require.NoError(t, err)
	own, err := telemetry.Listen(t.Context(), "127.0.0.1:0", "")
	require.NoError(t, err)
	flushed, released := make(chan struct{}), make(chan struct{})
	ctx, terminate := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- p.Run(ctx, []part{func(ctx context.Context) error {
			<-ctx.Done()
			<-flushed
			return nil
		}}, []part{
			func(ctx context.Context) error { return p.Health(ctx, l, p.Stopping) },
			func(ctx context.Context) error { return p.Metrics(ctx, own) },
		}, func() error {
			<-released
			return errors.New("disk is full")
		})
	}()
	address := l.Addr().String()
	code, _ := ask(t, address, "/readyz")
	require.Equal(t, 200, code)
	_, text := ask(t, address, "/metrics")
	require.Contains(t, text, "synchronizer_ready 1\n")
	terminate()
	ending := func() {
		require.Eventually(t, func() bool {
			code, text := ask(t, address, "/readyz")
			return code == 503 && text == "not ready: shutting down\n"
		}, time.Minute, time.Millisecond)
		code, _ = ask(t, address, "/healthz")
		require.Equal(t, 200, code)
		code, text := ask(t, own.Addr().String(), "/metrics")
		require.Equal(t, 200, code)
		require.Contains(t, text, "synchronizer_drops_total")
		require.Contains(t, text, "synchronizer_ready 0\n")
		code, _ = ask(t, own.Addr().String(), "/readyz")
		require.Equal(t, 404, code, "a port for metrics has nothing else")
	}
	ending()
	close(flushed)
	ending()
	close(released)
	require.EqualError(t, <-done, "disk is full")
	_, err = net.DialTimeout("tcp", address, time.Second)
	require.Error(t, err)
}

// TestRunEnds when a part or a port fails, with its error, and the others end too.
func TestRunEnds(t *testing.T) {
	broken := errors.New("it broke")
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}
	fail := func(context.Context) error { return broken }
	for name, run := range map[string][2][]part{
		"a part fails": {{wait, fail}, {wait}},
		"a port fails": {{wait}, {wait, fail}},
	} {
		p := NewProcess(io.Discard)
		require.ErrorIs(t, p.Run(t.Context(), run[0], run[1], nil), broken, name)
		require.Error(t, p.Stopping(), name)
	}
	p := NewProcess(io.Discard)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, p.Run(ctx, []part{wait}, []part{wait}, nil))
}
