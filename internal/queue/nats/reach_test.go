// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/test/brokers"
)

// TestReachableEmbedded: the broker in the process is asked too, since it can stop to
// keep records, on a full disk for example.
func TestReachableEmbedded(t *testing.T) {
	q, err := OpenEmbedded(t.Context(), EmbeddedConfig{Dir: t.TempDir(), Logger: quietLogger()})
	require.NoError(t, err)
	require.NoError(t, q.Reachable(t.Context()))
	require.NoError(t, q.js.DeleteStream(t.Context(), q.streamName(synchronizer.In)))
	err = q.Reachable(t.Context())
	require.ErrorContains(t, err, "asking the broker in this process: reading stream synchronizer-in")
	require.NotErrorIs(t, err, synchronizer.ErrClosed)
	require.NoError(t, q.Close(t.Context()))
	require.ErrorIs(t, q.Reachable(t.Context()), synchronizer.ErrClosed)
}

// TestReachableEndedForGood: that the library has given up is another answer than
// that the broker is away.
func TestReachableEndedForGood(t *testing.T) {
	for name, end := range map[string]func(q *Queue){
		"write": func(q *Queue) { q.write.Close() },
		"read":  func(q *Queue) { q.read.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			server := brokers.SharedNATS(t)
			q := openTCP(t, tcpConfig(t, server))
			defer shut(t, q)
			require.NoError(t, q.Reachable(t.Context()))
			end(q)
			<-q.ctx.Done() // the library tells it from a goroutine of its own
			err := q.Reachable(t.Context())
			require.ErrorIs(t, err, synchronizer.ErrClosed)
			require.ErrorContains(t, err, "asking NATS at "+server.URL+": connection to NATS has ended for good")
		})
	}
}

// TestReachableEndsWithContext.
func TestReachableEndsWithContext(t *testing.T) {
	q := openTCP(t, tcpConfig(t, brokers.SharedNATS(t)))
	defer shut(t, q)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, q.Reachable(ctx), context.Canceled)
}
