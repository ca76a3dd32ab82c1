// SPDX-License-Identifier: Apache-2.0

package chunk_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue/chunk"
	"synchronizer/internal/queue/nats"
	"synchronizer/internal/queue/queuetest"
)

// TestContractOnBroker: the same around a real broker with a small limit.
func TestContractOnBroker(t *testing.T) {
	const limit = 64 << 10
	bare := func(t *testing.T) queuetest.Open {
		config := nats.EmbeddedConfig{
			Dir: t.TempDir(), MaxPayload: limit, MaxBytes: 1 << 30,
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		}
		return func(t *testing.T) synchronizer.Queue {
			q, err := nats.OpenEmbedded(t.Context(), config)
			require.NoError(t, err)
			return q
		}
	}
	queuetest.Run(t, queuetest.Factory{
		Name: "chunks on a broker",
		New: func(t *testing.T) queuetest.Open {
			open := bare(t)
			return func(t *testing.T) synchronizer.Queue {
				return chunk.New(open(t), chunk.Options{MaxRecord: limit, MaxSetBytes: 24 << 20})
			}
		},
		MaxPayload: 24 << 20,
		OneMember:  true,
		EachKey:    100, // it is slow with the race detector, and tested below this layer
		Chunks:     &queuetest.ChunkFactory{New: bare, MaxRecord: limit},
	})
}
