// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/test/brokers"
)

// TestReachableNeedsTopics: a broker that answers is not enough, and asking makes no
// topics.
func TestReachableNeedsTopics(t *testing.T) {
	k := brokers.SharedKafka(t)
	q := mustOpen(t, testConfig(t, k.Plain))
	ctx := limited(t)
	require.NoError(t, q.Reachable(ctx))
	_, err := admin(t, k.Plain).DeleteTopics(ctx, q.InTopic)
	require.NoError(t, err)
	for err == nil && ctx.Err() == nil { // brokers hear of it one after the other
		<-time.After(topicPause)
		err = q.Reachable(ctx)
	}
	for range 3 {
		require.ErrorContains(t, err, "asking Kafka at "+k.Plain+": topic "+q.InTopic+": ")
		require.NotErrorIs(t, err, synchronizer.ErrClosed)
		err = q.Reachable(ctx)
	}

	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, q.Reachable(ended), context.Canceled)
	shut(t, q)
	require.ErrorIs(t, q.Reachable(ctx), synchronizer.ErrClosed)
}
