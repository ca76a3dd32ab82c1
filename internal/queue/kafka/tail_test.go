// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
	"synchronizer/test/brokers"
)

// TestTailFindsNewPartitions, and reads them from their beginning.
func TestTailFindsNewPartitions(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	config.Partitions = 1
	config.partitionScan = 200 * time.Millisecond
	q := mustOpen(t, config)
	require.NoError(t, q.Publish(limited(t), synchronizer.In, numbered("account/before", 0, 3, 10)))
	tail, err := q.Tail(limited(t))
	require.NoError(t, err)
	_, err = admin(t, k.Plain).UpdatePartitions(limited(t), 3, config.InTopic)
	require.NoError(t, err)

	// At once, before the tail can have seen them.
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Plain), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1))
	require.NoError(t, err)
	defer client.Close()
	for i := range 30 {
		r := &kgo.Record{Topic: config.InTopic, Partition: int32(i % 3), Value: []byte(strconv.Itoa(i))}
		require.Eventually(t, func() bool { return client.ProduceSync(t.Context(), r).FirstErr() == nil }, 20*time.Second, 50*time.Millisecond)
	}
	seen := map[string]bool{}
	for len(seen) < 30 {
		records, err := tail.Next(limited(t))
		require.NoError(t, err)
		for _, r := range records {
			require.False(t, seen[string(r.Payload)])
			require.Empty(t, r.Key, "what was there before is not seen")
			seen[string(r.Payload)] = true
			i, err := strconv.Atoi(string(r.Payload))
			require.NoError(t, err)
			require.Equal(t, config.InTopic+"-"+strconv.Itoa(i%3), r.Partition)
		}
	}
}

// TestB024NoGroup: 20 restarts leave no group on the broker.
func TestB024NoGroup(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	groups := func() []string {
		listed, err := admin(t, k.Plain).ListGroups(limited(t))
		require.NoError(t, err)
		return listed.Groups()
	}
	before := groups()
	for range 20 {
		q, err := Open(t.Context(), config)
		require.NoError(t, err)
		tail, err := q.Tail(limited(t))
		require.NoError(t, err)
		require.NoError(t, q.Publish(limited(t), synchronizer.In, numbered("account/a", 0, 5, 10)))
		for n := 0; n < 5; {
			records, err := tail.Next(limited(t))
			require.NoError(t, err)
			n += len(records)
		}
		shut(t, q)
	}
	require.ElementsMatch(t, before, groups())
}

// broken is a client whose polls bring an error at once, or a record without one.
type broken struct {
	err   error
	polls int
}

func (b *broken) PollRecords(context.Context, int) kgo.Fetches {
	b.polls++
	return kgo.NewErrFetch(b.err)
}

// TestB088: a broker that is away at the start and comes; a reader that ends for
// good after 10 records; one that brings errors without records. Nothing spins or
// panics, and nothing is silently deaf.
func TestB088(t *testing.T) {
	t.Run("away at the start", func(t *testing.T) {
		config := testConfig(t, brokers.SharedKafka(t).Plain)
		n := &network{}
		n.set(true)
		config.dial = n.dial
		config.StartRetries, config.StartPause = 10_000, 10*time.Millisecond
		opened := make(chan error, 1)
		go func() {
			q, err := Open(t.Context(), config)
			if err == nil {
				err = q.Close(t.Context())
			}
			opened <- err
		}()
		require.Eventually(t, func() bool { return n.refusals() > 5 }, 60*time.Second, time.Millisecond)
		n.set(false)
		require.NoError(t, <-opened)
	})
	t.Run("ends for good after 10 records", func(t *testing.T) {
		config := testConfig(t, brokers.SharedKafka(t).Plain)
		q := mustOpen(t, config)
		c := mustConsume(t, q)
		made, err := q.Tail(limited(t))
		require.NoError(t, err)
		for _, to := range []synchronizer.Direction{synchronizer.In, synchronizer.Out} {
			require.NoError(t, q.Publish(limited(t), to, numbered("account/a", 0, 10, 10)))
		}
		_, _ = take(t, c, 10)
		for n := 0; n < 10; {
			records, err := made.Next(limited(t))
			require.NoError(t, err)
			n += len(records)
		}
		made.(*tail).client.Close()
		c.client.CloseAllowingRebalance()
		for range 3 {
			_, err = made.Next(limited(t))
			require.ErrorIs(t, err, synchronizer.ErrDisconnected)
			_, err = c.Next(limited(t), 1, 1)
			require.ErrorIs(t, err, synchronizer.ErrDisconnected)
		}
		// A new reader works.
		again, err := q.Tail(limited(t))
		require.NoError(t, err)
		require.NoError(t, q.Publish(limited(t), synchronizer.In, numbered("account/a", 10, 11, 10)))
		records, err := again.Next(limited(t))
		require.NoError(t, err)
		require.Len(t, records, 1)
	})
	t.Run("errors without records", func(t *testing.T) {
		b := &broken{err: errors.New("no permission")}
		ctx, cancel := contextWithTimeout(t, time.Second)
		defer cancel()
		var taken int
		var log bytes.Buffer
		err := poll(ctx, b, 10, slog.New(slog.NewTextHandler(&log, nil)), func(f kgo.Fetches) { taken += f.NumRecords() })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, b.polls, 3, "it pauses")
		require.Zero(t, taken)
		require.Equal(t, 1, strings.Count(log.String(), "no permission"))
	})
}
