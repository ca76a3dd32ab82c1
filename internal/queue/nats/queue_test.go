// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue/queuetest"
	"synchronizer/test/brokers"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		victim(dir)
	}
	if url := os.Getenv(victimURL); url != "" {
		victimMember(url, os.Getenv(victimPrefix))
	}
	os.Exit(brokers.Main(m))
}

// patience bounds every wait for something that must come.
const patience = time.Minute

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func quietLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestContract(t *testing.T) {
	queuetest.Run(t, queuetest.Factory{
		Name: "embedded",
		New: func(t *testing.T) queuetest.Open {
			config := EmbeddedConfig{Dir: t.TempDir(), MaxPayload: 32 << 20, MaxBytes: 1 << 30, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
			return func(t *testing.T) synchronizer.Queue {
				q, err := OpenEmbedded(t.Context(), config)
				require.NoError(t, err)
				return q
			}
		},
		MaxPayload: 32 << 20,
		OneMember:  true,
		Patience:   patience,
	})
}
