// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/chunk"
	"synchronizer/test/brokers"
)

// readSome returns the next n records, acknowledged.
func readSome(t *testing.T, c synchronizer.Consumer, n int) []synchronizer.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var records []synchronizer.Record
	for len(records) < n {
		batch, err := c.Next(ctx, n-len(records), 64<<20)
		require.NoError(t, err, "after %d of %d", len(records), n)
		records = append(records, batch.Records...)
		require.NoError(t, batch.Ack(ctx))
	}
	return records
}

// TestB009: the broker must not take different messages with one id for
// duplicates, even if somebody has set its memory to two minutes.
func TestB009(t *testing.T) {
	config := tcpConfig(t, brokers.SharedNATS(t))
	q := openTCP(t, config)
	defer shut(t, q)
	stream, err := q.js.Stream(t.Context(), q.streamName(synchronizer.Out))
	require.NoError(t, err)
	settings := stream.CachedInfo().Config
	settings.Duplicates = 2 * time.Minute
	_, err = q.js.UpdateStream(t.Context(), settings)
	require.NoError(t, err)

	encoder := queue.Encoder{Encoding: queue.Compact, Producer: queue.Server}
	message := func(event synchronizer.Event, cluster, body string) synchronizer.Record {
		r, err := encoder.Encode(&synchronizer.Message{
			Event: event, Depth: 1, MsgID: "0b1cf1de-8c5f-4b1c-9d5e-5f3f6a3b7a11", Body: []byte(body),
			ClusterID: synchronizer.ClusterID{Account: "account", Cluster: cluster},
			Kind:      synchronizer.Kind{Version: "v1", Resource: "pods"}, Namespace: "default", Name: "web",
		}, queue.Extra{})
		require.NoError(t, err)
		r.Properties = append(r.Properties, synchronizer.Property{Name: "Nats-Msg-Id", Value: "0b1cf1de"})
		return r
	}
	records := []synchronizer.Record{
		message(synchronizer.EventGet, "a", ""),
		message(synchronizer.EventPut, "a", `{"x":1}`),
		message(synchronizer.EventPut, "b", `{"x":1}`), // another cluster
	}
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, records))
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, records[1:2])) // a retry
	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	events := map[string][]string{}
	for _, r := range readSome(t, c, 4) {
		events[r.Key] = append(events[r.Key], r.Property("event"))
	}
	require.Equal(t, map[string][]string{"account/a": {"GetObject", "PutObject", "PutObject"}, "account/b": {"PutObject"}}, events)

	t.Run("nothing for the broker to compare", func(t *testing.T) {
		require.NoError(t, q.Publish(t.Context(), synchronizer.In, records[:1]))
		in, err := q.js.Stream(t.Context(), q.streamName(synchronizer.In))
		require.NoError(t, err)
		raw, err := in.GetMsg(t.Context(), 1)
		require.NoError(t, err)
		require.Empty(t, raw.Header.Get("Nats-Msg-Id"))
		require.NotEmpty(t, raw.Header["event"])
	})
	t.Run("said to be a duplicate", func(t *testing.T) {
		// What another client does: the answer is no confirmation of ours.
		require.Error(t, answerOf(`{"stream":"s","seq":7,"duplicate":true}`))
		require.NoError(t, answerOf(`{"stream":"s","seq":7}`))
	})
}

// TestB018: one record over the limit fails alone, or is split; the rest arrives in
// order and the connection stays.
func TestB018(t *testing.T) {
	sizes := []int{10 << 10, 3 << 20, 10 << 10, 1<<20 - 200}
	records := func() []synchronizer.Record {
		var list []synchronizer.Record
		for i, size := range sizes {
			r := numbers("account/cluster", i, i+1, size)[0]
			for p := range 15 {
				r.Properties = append(r.Properties, synchronizer.Property{Name: fmt.Sprintf("property-%d", p), Value: "a value of some length"})
			}
			list = append(list, r)
		}
		return append(list, numbers("account/cluster", len(sizes), len(sizes)+1, 8)...)
	}
	t.Run("bare", func(t *testing.T) {
		q := openTCP(t, tcpConfig(t, brokers.SharedNATS(t)))
		defer shut(t, q)
		require.Equal(t, 1<<20, q.MaxPayload())
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := q.Publish(ctx, synchronizer.Out, records())
		require.ErrorIs(t, err, synchronizer.ErrTooLarge)
		require.ErrorContains(t, err, "account/cluster")
		c, err := q.Consume(t.Context(), "g")
		require.NoError(t, err)
		var got []int
		for _, r := range readSome(t, c, 3) {
			got = append(got, numberOf(&r))
		}
		require.Equal(t, []int{0, 2, 4}, got)
		require.Zero(t, q.write.Stats().Reconnects)
		require.NoError(t, q.Publish(t.Context(), synchronizer.Out, records()[:1]))
		readSome(t, c, 1)
	})
	t.Run("split", func(t *testing.T) {
		inner := openTCP(t, tcpConfig(t, brokers.SharedNATS(t)))
		q := chunk.New(inner, chunk.Options{MaxRecord: inner.MaxPayload(), Size: inner.RecordSize, Logger: quietLogger()})
		defer func() { require.NoError(t, q.Close(context.WithoutCancel(t.Context()))) }()
		want := records()
		require.NoError(t, q.Publish(t.Context(), synchronizer.Out, want))
		c, err := q.Consume(t.Context(), "g")
		require.NoError(t, err)
		for i, r := range readSome(t, c, len(want)) {
			require.Equal(t, i, numberOf(&r))
			require.Len(t, r.Payload, len(want[i].Payload))
		}
		require.Zero(t, inner.write.Stats().Reconnects)
	})
}

// TestB024: every server sees every command, one that starts sees all from the
// moment on that it is ready, and restarts leave nothing on the broker.
func TestB024(t *testing.T) {
	config := tcpConfig(t, brokers.SharedNATS(t))
	backend, pod1, pod2 := openTCP(t, config), openTCP(t, config), openTCP(t, config)
	defer shut(t, backend)
	defer shut(t, pod2)
	tail1, err := pod1.Tail(t.Context())
	require.NoError(t, err)
	tail2, err := pod2.Tail(t.Context())
	require.NoError(t, err)
	read := func(tail synchronizer.Tail, from, to int) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for from < to {
			records, err := tail.Next(ctx)
			require.NoError(t, err)
			for i := range records {
				require.Equal(t, from, numberOf(&records[i]))
				from++
			}
		}
		require.Equal(t, to, from)
	}
	var commands sync.WaitGroup
	commands.Go(func() {
		for i := range 100 {
			if backend.Publish(t.Context(), synchronizer.In, numbers("account/cluster", i, i+1, 8)) != nil {
				t.Error("publishing")
			}
		}
	})
	for range 20 { // the other pod restarts
		require.NoError(t, tail1.Close())
		shut(t, pod1)
		pod1 = openTCP(t, config)
		tail1, err = pod1.Tail(t.Context())
		require.NoError(t, err)
	}
	commands.Wait()
	read(tail2, 0, 100)

	// Pod 2 is new, and the commands begin at the moment it says that it is ready.
	require.NoError(t, tail2.Close())
	tail2, err = pod2.Tail(t.Context())
	require.NoError(t, err)
	require.NoError(t, backend.Publish(t.Context(), synchronizer.In, numbers("account/cluster", 100, 200, 8)))
	read(tail2, 100, 200)

	require.NoError(t, tail1.Close())
	require.NoError(t, tail2.Close())
	shut(t, pod1)
	require.Empty(t, leftovers(t, config))
}

// TestB088: a reader outlives a broker that is away at the start, a consumer that
// is closed for good, and says so if the library gives up.
func TestB088(t *testing.T) {
	t.Run("refuses at the start", func(t *testing.T) {
		server := brokers.StartNATS(t, brokers.NATSOptions{})
		server.Stop(t)
		config := tcpConfig(t, server)
		tried := make(chan struct{}, 100)
		config.StartRetries, config.Logger = 1000, loggerTo(tried)
		opened := make(chan error, 1)
		go func() {
			q, err := Open(t.Context(), config)
			if err == nil {
				err = q.Close(context.WithoutCancel(t.Context()))
			}
			opened <- err
		}()
		for range 10 {
			<-tried
		}
		server.Start(t)
		require.NoError(t, <-opened)
	})
	t.Run("closed for good after 10", func(t *testing.T) {
		q := openTCP(t, tcpConfig(t, brokers.SharedNATS(t)))
		defer shut(t, q)
		c, err := q.Consume(t.Context(), "g")
		require.NoError(t, err)
		tailed, err := q.Tail(t.Context())
		require.NoError(t, err)
		require.NoError(t, q.Publish(t.Context(), synchronizer.Out, numbers("a/c", 0, 10, 8)))
		require.NoError(t, q.Publish(t.Context(), synchronizer.In, numbers("a/c", 0, 10, 8)))
		readSome(t, c, 10)
		for n := 0; n < 10; {
			records, err := tailed.Next(t.Context())
			require.NoError(t, err)
			n += len(records)
		}
		consumers := q.js.(jetstream.StreamConsumerManager)
		require.NoError(t, consumers.DeleteConsumer(t.Context(), q.streamName(synchronizer.In), tailed.(*tail).name))
		for p := range DefaultPartitions {
			require.NoError(t, consumers.DeleteConsumer(t.Context(), q.streamName(synchronizer.Out), fmt.Sprintf("g-%d", p)))
		}
		require.NoError(t, q.Publish(t.Context(), synchronizer.Out, numbers("a/c", 10, 20, 8)))
		require.NoError(t, q.Publish(t.Context(), synchronizer.In, numbers("a/c", 10, 20, 8)))
		seen := follow{"a/c": 10}
		for !seen.complete([]string{"a/c"}, 20) {
			seen.see(t, readSome(t, c, 1))
		}
		records, err := tailed.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, 10, numberOf(&records[0]))
	})
	t.Run("library gives up", func(t *testing.T) {
		for _, name := range []string{"read", "write"} {
			q := openTCP(t, tcpConfig(t, brokers.SharedNATS(t)))
			c, err := q.Consume(t.Context(), "g")
			require.NoError(t, err)
			tailed, err := q.Tail(t.Context())
			require.NoError(t, err)
			results := make(chan error, 2)
			go func() {
				_, err := c.Next(t.Context(), 10, 1<<20)
				results <- err
			}()
			go func() {
				_, err := tailed.Next(t.Context())
				results <- err
			}()
			conn := map[string]interface{ Close() }{"read": q.read, "write": q.write}[name]
			conn.Close() // as the library does when it gives up
			for range 2 {
				err := <-results
				require.ErrorIs(t, err, synchronizer.ErrClosed, name)
				require.ErrorIs(t, err, synchronizer.ErrDisconnected, name)
				require.ErrorContains(t, err, "has ended for good")
			}
			require.ErrorIs(t, q.Publish(t.Context(), synchronizer.Out, numbers("a/c", 0, 1, 8)), synchronizer.ErrDisconnected)
			shut(t, q)
		}
	})
}

func answerOf(body string) error { return answer(&natsgo.Msg{Data: []byte(body)}) }
