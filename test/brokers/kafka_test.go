// SPDX-License-Identifier: Apache-2.0

package brokers

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKafkaKeepsDataAndAddress over an end in order and one without consent.
func TestKafkaKeepsDataAndAddress(t *testing.T) {
	k := StartKafka(t, KafkaOptions{AutoCreate: true})
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Plain), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"))
	require.NoError(t, err)
	defer client.Close()
	for _, end := range []func(testing.TB){k.Stop, k.Kill} {
		require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr())
		end(t)
		require.Error(t, client.Ping(t.Context()))
		k.Start(t)
	}
	n := 0
	for n < 2 {
		fetches := client.PollFetches(t.Context())
		require.NoError(t, t.Context().Err())
		n += fetches.NumRecords()
	}
	require.Equal(t, 2, n)
}
