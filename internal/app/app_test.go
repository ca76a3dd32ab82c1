// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer"
	"synchronizer/internal/config"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("os/signal.loop")) // runs for ever after the first Notify
}

func TestMainProgram(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		code int
		text string
	}{
		"nothing wrong":     {nil, ExitOK, ""},
		"any error":         {errors.New("it broke"), ExitError, "Error: it broke\n"},
		"wrong flag":        {fmt.Errorf("%w: no flag --x", ErrUsage), ExitUsage, "Error: usage: no flag --x\n"},
		"configuration":     {fmt.Errorf("loading: %w", config.Problems{{Path: "a.b", Message: "is wrong"}}), ExitUsage, "a.b"},
		"wrong access key":  {fmt.Errorf("connecting: %w", synchronizer.ErrUnauthorized), ExitError, "check account and access key"},
		"database is newer": {fmt.Errorf("opening: %w", synchronizer.ErrSchemaTooNew), ExitError, "another data directory"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			code := Main(&out, func(context.Context) error { return test.err })
			require.Equal(t, test.code, code)
			require.Contains(t, out.String(), test.text)
			require.Equal(t, test.text == "", out.Len() == 0)
		})
	}
}

// TestMainSignal: SIGTERM ends the context, and a program that ends by itself
// then has exit code 0.
func TestMainSignal(t *testing.T) {
	code := Main(io.Discard, func(ctx context.Context) error {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Second):
			return errors.New("no signal came")
		}
	})
	require.Equal(t, ExitOK, code)
}

// TestProfiler: a busy port is no reason not to start.
func TestProfiler(t *testing.T) {
	var log bytes.Buffer
	p := NewProcess(&log)
	require.NoError(t, p.Profiler(t.Context()), "off by default")
	t.Setenv("ENABLE_PROFILER", "true")
	if l, err := net.Listen("tcp", profilerAddress); err == nil { // or another process has it
		defer l.Close()
	}
	require.NoError(t, p.Profiler(t.Context()))
	require.Contains(t, log.String(), "no profiler")
}
