// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue/queuetest"
	"synchronizer/test/brokers"
)

// prefixes makes one for each queue on a shared server.
var prefixes atomic.Int64

func freshPrefix() string { return "t" + strconv.FormatInt(prefixes.Add(1), 10) }

// tcpConfig is for a server on this machine, with a start that fails soon.
func tcpConfig(t testing.TB, server *brokers.NATS) Config {
	return Config{
		URLs: []string{server.URL}, Prefix: freshPrefix(), StartRetries: 3, StartPause: 10 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), MaxBytes: 128 << 20,
	}
}

func openTCP(t testing.TB, config Config) *Queue {
	t.Helper()
	q, err := Open(t.Context(), config)
	require.NoError(t, err)
	return q
}

func TestContractOverTCP(t *testing.T) {
	queuetest.Run(t, queuetest.Factory{
		Name: "nats",
		New: func(t *testing.T) queuetest.Open {
			config := tcpConfig(t, brokers.SharedNATS(t))
			return func(t *testing.T) synchronizer.Queue { return openTCP(t, config) }
		},
		MaxPayload: 1 << 20,
		Large:      1000 << 10,
	})
}
