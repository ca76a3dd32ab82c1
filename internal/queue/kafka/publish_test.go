// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"synchronizer"
	"synchronizer/test/brokers"
)

func contextWithTimeout(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// numbered makes records from..to-1 of a key; size is that of the payload.
func numbered(key string, from, to, size int) []synchronizer.Record {
	var records []synchronizer.Record
	for i := from; i < to; i++ {
		records = append(records, synchronizer.Record{
			Key: key, Payload: bytes.Repeat([]byte{byte(i)}, size),
			Properties: []synchronizer.Property{{Name: "n", Value: strconv.Itoa(i)}},
		})
	}
	return records
}

func numberOf(t testing.TB, r *synchronizer.Record) int {
	n, err := strconv.Atoi(r.Property("n"))
	require.NoError(t, err)
	return n
}

// TestB018: large ones among small ones, with the broker's default limit.
func TestB018(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	config.MaxMessageBytes, config.Partitions, config.Compression = 1048588, 1, "none"
	q := mustOpen(t, config)
	var records []synchronizer.Record
	for i, size := range []int{10 << 10, 3 << 20, 10 << 10, 1<<20 - 200} {
		records = append(records, numbered("account/a", i, i+1, size)...)
	}
	// The last one fits with these headers, and does not with a longer one.
	pushed := numbered("account/a", 4, 5, 1<<20-200)[0]
	pushed.Properties = append(pushed.Properties, synchronizer.Property{Name: "x", Value: string(make([]byte, 300))})
	records = append(append(records, pushed), numbered("account/a", 5, 6, 10<<10)...)
	for range 3 { // the producer stays usable
		err := q.Publish(limited(t), synchronizer.Out, records)
		require.ErrorIs(t, err, synchronizer.ErrTooLarge)
		require.ErrorContains(t, err, "account/a")
	}
	for i, raw := range readRaw(t, k.Plain, config.OutTopic, 12) {
		require.Equal(t, []string{"0", "2", "3", "5"}[i%4], headersOf(raw)["n"])
	}
}

// TestTopicLimitLowered: the topic's limit was lowered after the start, so the
// broker refuses whole batches; only the records that are too large fail.
func TestTopicLimitLowered(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	config.Partitions, config.Compression = 1, "none"
	q := mustOpen(t, config)
	value := "100000"
	_, err := admin(t, k.Plain).AlterTopicConfigs(limited(t), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: maxMessage, Value: &value}}, config.OutTopic)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return settingOf(t, k.Plain, config.OutTopic, maxMessage) == value }, 20*time.Second, 10*time.Millisecond)

	records := numbered("account/a", 0, 10, 1000)
	records[3].Payload, records[7].Payload = make([]byte, 200_000), make([]byte, 100_000)
	require.ErrorIs(t, q.Publish(limited(t), synchronizer.Out, records), synchronizer.ErrTooLarge)
	require.NoError(t, q.Publish(limited(t), synchronizer.Out, numbered("account/a", 10, 20, 1000)))

	// What was in a refused batch was sent again, in order.
	next, seen := 0, map[int]bool{}
	for _, raw := range readRawUntil(t, k.Plain, config.OutTopic, "19") {
		n, err := strconv.Atoi(headersOf(raw)["n"])
		require.NoError(t, err)
		require.LessOrEqual(t, n, next)
		next, seen[n] = n+1, true
		for next == 3 || next == 7 {
			next++
		}
	}
	require.Len(t, seen, 18)
	require.False(t, seen[3] || seen[7])
}

// TestCompressions: each of them arrives.
func TestCompressions(t *testing.T) {
	k := brokers.SharedKafka(t)
	for _, compression := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(compression, func(t *testing.T) {
			config := testConfig(t, k.Plain)
			config.Compression = compression
			q := mustOpen(t, config)
			tail, err := q.Tail(limited(t))
			require.NoError(t, err)
			require.NoError(t, q.Publish(limited(t), synchronizer.In, numbered("account/a", 0, 20, 2000)))
			for n := 0; n < 20; {
				records, err := tail.Next(limited(t))
				require.NoError(t, err)
				for i := range records {
					require.Equal(t, n, numberOf(t, &records[i]))
					n++
				}
			}
			require.Equal(t, compression != "none", readRaw(t, k.Plain, config.InTopic, 20)[0].Attrs.CompressionType() != 0)
		})
	}
}

// TestPublishWithoutBroker: calls end with their context, what waits is bounded,
// and afterwards everything that was published is there in order.
func TestPublishWithoutBroker(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	config.Partitions = 1
	n := &network{}
	config.dial = n.dial
	q := mustOpen(t, config)
	require.NoError(t, q.Publish(limited(t), synchronizer.Out, numbered("account/a", 0, 10, 100)))
	n.set(true)
	// More than the window holds, in calls that all end without a confirmation.
	sent := 10
	for range 3 {
		ctx, cancel := contextWithTimeout(t, 300*time.Millisecond)
		err := q.Publish(ctx, synchronizer.Out, numbered("account/a", sent, sent+10, 400<<10))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		sent += 10
	}
	require.LessOrEqual(t, q.client.BufferedProduceBytes(), int64(windowBytes))
	waiting := make(chan error, 1)
	go func() { waiting <- q.Publish(t.Context(), synchronizer.Out, numbered("account/a", sent, sent+5, 100)) }()
	n.set(false)
	require.NoError(t, <-waiting)
	require.NoError(t, q.Publish(limited(t), synchronizer.Out, numbered("account/a", sent+5, sent+10, 100)))

	last := -1
	for _, raw := range readRawUntil(t, k.Plain, config.OutTopic, fmt.Sprint(sent+9)) {
		n, err := strconv.Atoi(headersOf(raw)["n"])
		require.NoError(t, err)
		require.Greater(t, n, last)
		last = n
	}
}
