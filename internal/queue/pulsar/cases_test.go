// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/test/brokers"
)

const patience = time.Minute

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// openQueue opens a queue that is closed with the test.
func openQueue(t *testing.T, config Config) *Queue {
	t.Helper()
	q, err := Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close(context.WithoutCancel(t.Context()))) })
	return q
}

// readAll takes n records of a consumer and acknowledges them.
func readAll(t *testing.T, c synchronizer.Consumer, n int) []synchronizer.Record {
	t.Helper()
	ctx := bounded(t)
	var all []synchronizer.Record
	for len(all) < n {
		batch, err := c.Next(ctx, 500, 4<<20)
		require.NoError(t, err, "after %d of %d", len(all), n)
		all = append(all, batch.Records...)
		require.NoError(t, batch.Ack(ctx))
	}
	require.Len(t, all, n)
	return all
}

func tailAll(t *testing.T, tail synchronizer.Tail, n int) []synchronizer.Record {
	t.Helper()
	ctx := bounded(t)
	var all []synchronizer.Record
	for len(all) < n {
		records, err := tail.Next(ctx)
		require.NoError(t, err, "after %d of %d", len(all), n)
		all = append(all, records...)
	}
	require.Len(t, all, n)
	return all
}

// quiet checks that nothing comes for a while.
func quiet(t *testing.T, next func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, next(ctx), context.DeadlineExceeded)
}

func numbered(key string, from, to int) []synchronizer.Record {
	var all []synchronizer.Record
	for i := from; i < to; i++ {
		all = append(all, synchronizer.Record{Key: key, Payload: fmt.Appendf(nil, "%d", i)})
	}
	return all
}

func requireNumbers(t *testing.T, records []synchronizer.Record, from, to int) {
	t.Helper()
	require.Len(t, records, to-from)
	for i := range records {
		require.Equal(t, fmt.Sprint(from+i), string(records[i].Payload))
	}
}

// TestB009EqualMessageIDs: messages with one id are all carried, and a retry may
// be.
func TestB009EqualMessageIDs(t *testing.T) {
	q := openQueue(t, configOn(t, brokers.SharedPulsar(t)))
	c, err := q.Consume(t.Context(), "b009")
	require.NoError(t, err)
	encoder := queue.Encoder{Encoding: queue.Field, Producer: queue.Server}
	record := func(cluster string, event synchronizer.Event) synchronizer.Record {
		m := synchronizer.Message{
			Event: event, ClusterID: synchronizer.ClusterID{Account: "account", Cluster: cluster}, MsgID: "one id",
			Kind: synchronizer.Kind{Version: "v1", Resource: "pods"}, Namespace: "demo", Name: "web",
		}
		r, err := encoder.Encode(&m, queue.Extra{})
		require.NoError(t, err)
		return r
	}
	all := []synchronizer.Record{
		record("one", synchronizer.EventGet), record("one", synchronizer.EventPut),
		record("two", synchronizer.EventGet), record("two", synchronizer.EventPut),
	}
	for i := range all {
		require.NoError(t, q.Publish(t.Context(), synchronizer.Out, all[i:i+1]))
	}
	// a retry of one whose confirmation did not arrive
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, all[3:4]))
	last := record("end", synchronizer.EventDelete)
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, []synchronizer.Record{last}))

	seen := map[string]bool{}
	ctx := bounded(t)
	for !seen["account/end DeleteObject"] {
		batch, err := c.Next(ctx, 10, 1<<20)
		require.NoError(t, err)
		for i := range batch.Records {
			seen[batch.Records[i].Key+" "+batch.Records[i].Property(queue.PropertyEvent)] = true
		}
	}
	for _, cluster := range []string{"one", "two"} {
		require.True(t, seen["account/"+cluster+" GetObject"], cluster)
		require.True(t, seen["account/"+cluster+" PutObject"], cluster)
	}
}

// TestB018LargeBetweenSmall: Pulsar's own limit is 5 MiB.
func TestB018LargeBetweenSmall(t *testing.T) {
	q := openQueue(t, configOn(t, brokers.SharedPulsar(t)))
	c, err := q.Consume(t.Context(), "b018")
	require.NoError(t, err)
	var all []synchronizer.Record
	for i, size := range []int{10 << 10, 8 << 20, 10 << 10, 5<<20 - 200, 10 << 10} {
		all = append(all, synchronizer.Record{Key: "account/cluster", Payload: noise(i, size)})
	}
	require.NoError(t, q.Publish(bounded(t), synchronizer.Out, all))
	for i, r := range readAll(t, c, len(all)) {
		require.Equal(t, len(all[i].Payload), len(r.Payload))
		require.Equal(t, all[i].Payload, r.Payload)
	}
}

// TestB024EveryServerSeesEveryRecord: also those that are published while another
// server restarts, and from the moment on at which Tail has returned.
func TestB024EveryServerSeesEveryRecord(t *testing.T) {
	p := brokers.SharedPulsar(t)
	config := configOn(t, p)
	backend, second := openQueue(t, config), openQueue(t, config)
	tail, err := second.Tail(t.Context())
	require.NoError(t, err)
	restart := func() {
		first, err := Open(t.Context(), config)
		require.NoError(t, err)
		other, err := first.Tail(t.Context())
		require.NoError(t, err)
		require.NoError(t, backend.Publish(bounded(t), synchronizer.In, numbered("account/other", 0, 1)))
		for seen := false; !seen; {
			records, err := other.Next(bounded(t))
			require.NoError(t, err)
			seen = slices.ContainsFunc(records, func(r synchronizer.Record) bool { return r.Key == "account/other" })
		}
		require.NoError(t, first.Close(t.Context()))
	}
	var work errgroup.Group
	work.Go(func() error {
		for i := range 100 {
			if err := backend.Publish(bounded(t), synchronizer.In, numbered("account/cluster", i, i+1)); err != nil {
				return err
			}
		}
		return nil
	})
	const restarts = 20
	for range restarts {
		restart()
	}
	require.NoError(t, work.Wait())
	var commands []synchronizer.Record
	for _, r := range tailAll(t, tail, 100+restarts) {
		if r.Key == "account/cluster" {
			commands = append(commands, r)
		}
	}
	requireNumbers(t, commands, 0, 100)

	third := openQueue(t, config)
	late, err := third.Tail(t.Context())
	require.NoError(t, err)
	require.NoError(t, backend.Publish(bounded(t), synchronizer.In, numbered("account/cluster", 100, 200)))
	requireNumbers(t, tailAll(t, tail, 100), 100, 200)
	requireNumbers(t, tailAll(t, late, 100), 100, 200)
	require.NoError(t, tail.Close())
	require.NoError(t, late.Close())
	require.Empty(t, leftovers(t, p, config), "nothing is left of any server")
}

// TestB049MoreChunksThanMayWait: a record of more chunks than messages may be in
// flight.
func TestB049MoreChunksThanMayWait(t *testing.T) {
	const limit = 64 << 10
	config := configOn(t, brokers.StartPulsar(t, brokers.PulsarOptions{MaxMessageSize: limit}))
	config.pending = 10
	q := openQueue(t, config)
	require.Equal(t, limit, q.lanes[synchronizer.Out].maxMessage)
	c, err := q.Consume(t.Context(), "b049")
	require.NoError(t, err)
	large := synchronizer.Record{Key: "account/cluster", Payload: noise(1, 3<<19)}
	require.NoError(t, q.Publish(bounded(t), synchronizer.Out, []synchronizer.Record{large}))
	require.NoError(t, q.Publish(bounded(t), synchronizer.Out, numbered("account/cluster", 0, 1)))
	records := readAll(t, c, 2)
	require.Equal(t, large.Payload, records[0].Payload)
	requireNumbers(t, records[1:], 0, 1)

	// Every size around the limits of batches and messages, mixed.
	var all []synchronizer.Record
	for i, size := range []int{0, limit / 2, limit/4*3 - 600, limit / 4 * 3, limit - 300, limit, limit + 1, 100, 2 * limit, limit / 2, limit / 2, 1} {
		all = append(all, synchronizer.Record{Key: "account/cluster", Payload: noise(i, size)})
	}
	require.NoError(t, q.Publish(bounded(t), synchronizer.Out, all))
	for i, r := range readAll(t, c, len(all)) {
		require.Len(t, r.Payload, len(all[i].Payload), "record %d", i)
		require.True(t, bytes.Equal(all[i].Payload, r.Payload), "record %d", i)
	}
}

// TestB088ReaderEndsForGood: the broker is away at the start and comes; then it ends
// consumer and tail for good, because their topics are deleted.
func TestB088ReaderEndsForGood(t *testing.T) {
	p := brokers.SharedPulsar(t)
	config := configOn(t, p)
	gate := newGate(t, p.URL)
	config.URL, config.AdminURL, config.StartRetries, config.StartPause = gate.url, "", 1000, 20*time.Millisecond
	prepared := configOn(t, p)
	openQueue(t, prepared) // makes the namespaces
	opened := make(chan *Queue, 1)
	go func() {
		q, err := Open(t.Context(), config)
		if err != nil {
			t.Error(err)
		}
		opened <- q
	}()
	require.Eventually(t, func() bool { return gate.refused.Load() > 5 }, patience, time.Millisecond)
	gate.open.Store(true)
	q := <-opened
	require.NotNil(t, q)
	t.Cleanup(func() { require.NoError(t, q.Close(context.WithoutCancel(t.Context()))) })
	tail, err := q.Tail(t.Context())
	require.NoError(t, err)
	c, err := q.Consume(t.Context(), "b088")
	require.NoError(t, err)
	ctx := bounded(t)
	require.NoError(t, q.Publish(ctx, synchronizer.In, numbered("account/cluster", 0, 10)))
	require.NoError(t, q.Publish(ctx, synchronizer.Out, numbered("account/cluster", 0, 10)))
	requireNumbers(t, tailAll(t, tail, 10), 0, 10)
	requireNumbers(t, readAll(t, c, 10), 0, 10)

	for _, topic := range []string{config.OutTopic, config.InTopic} {
		p.Admin(t, http.MethodDelete, "persistent/"+testTenant+"/"+testNamespace+"/"+topic+"?force=true", "")
	}
	// The topics come back with the next record; whoever reads has to come back too.
	// What is published before a reader is there again may not reach it.
	require.Eventually(t, func() bool {
		return q.Publish(ctx, synchronizer.In, numbered("account/again", 0, 1)) == nil &&
			q.Publish(ctx, synchronizer.Out, numbered("account/again", 0, 1)) == nil
	}, patience, 10*time.Millisecond)
	require.Equal(t, "account/again", tailAll(t, tail, 1)[0].Key)
	require.Equal(t, "account/again", readAll(t, c, 1)[0].Key)
}

// TestB088NoSpin: a library that ends readers at once, with an error or without a
// message, is asked again after growing pauses, and nothing panics.
func TestB088NoSpin(t *testing.T) {
	for name, fake := range map[string]*fakeLibrary{
		"error":      {err: context.Canceled},
		"no message": {},
	} {
		t.Run(name, func(t *testing.T) {
			config := configOn(t, brokers.SharedPulsar(t))
			config.RedeliveryDelay = 50 * time.Millisecond
			q := openQueue(t, config)
			q.newReader, q.subscribe = fake.newReader, fake.newSubscription
			tail, err := q.Tail(t.Context())
			require.NoError(t, err)
			c, err := q.Consume(t.Context(), "b088")
			require.NoError(t, err)
			quiet(t, func(ctx context.Context) error { _, err := tail.Next(ctx); return err })
			quiet(t, func(ctx context.Context) error { _, err := c.Next(ctx, 1, 1); return err })
			// 1 s: with pauses of 100, 200, 400 ms … and of 50 ms
			require.Less(t, fake.readers.Load(), int64(10))
			require.Less(t, fake.subscriptions.Load(), int64(40))
			require.NoError(t, tail.Close())
			require.NoError(t, c.Close())
		})
	}
}

// TestB089SharedTopic: with one topic for both directions no server reads what a
// server has produced, a server in the field included, and an ingester handles
// nothing else.
func TestB089SharedTopic(t *testing.T) {
	p := brokers.SharedPulsar(t)
	config := configOn(t, p)
	config.InTopic = config.OutTopic
	servers := []*Queue{openQueue(t, config), openQueue(t, config)}
	ingester := openQueue(t, config)
	var tails []synchronizer.Tail
	for _, q := range servers {
		tail, err := q.Tail(t.Context())
		require.NoError(t, err)
		tails = append(tails, tail)
	}
	c, err := ingester.Consume(t.Context(), "b089")
	require.NoError(t, err)

	put := synchronizer.Record{Key: "account/cluster", Payload: []byte("put"), Properties: []synchronizer.Property{
		{Name: queue.PropertyAccount, Value: "account"},
		{Name: queue.PropertyCluster, Value: "cluster"},
		{Name: queue.PropertyProducerSource, Value: "synchronizer-server"},
	}}
	require.NoError(t, servers[0].Publish(bounded(t), synchronizer.Out, []synchronizer.Record{put}))
	stock := rawProducer(t, p, config.topic(synchronizer.Out))
	_, err = stock.Send(bounded(t), &client.ProducerMessage{
		Key: queue.ServerProducerKey, Payload: []byte("stock"),
		Properties: map[string]string{queue.PropertyAccount: "account", queue.PropertyCluster: "stock"},
	})
	require.NoError(t, err)
	_, err = stock.Send(bounded(t), &client.ProducerMessage{ // marked as on the other brokers, without the message key
		OrderingKey: "account/marked", Payload: []byte("marked"),
		Properties: map[string]string{queue.PropertyProducerSource: "synchronizer-server"},
	})
	require.NoError(t, err)
	command := synchronizer.Record{Key: "account/cluster", Payload: []byte("command")}
	require.NoError(t, ingester.Publish(bounded(t), synchronizer.In, []synchronizer.Record{command}))

	for _, tail := range tails {
		require.Equal(t, "command", string(tailAll(t, tail, 1)[0].Payload))
		quiet(t, func(ctx context.Context) error { _, err := tail.Next(ctx); return err })
	}
	var payloads, keys []string
	for _, r := range readAll(t, c, 3) {
		payloads, keys = append(payloads, string(r.Payload)), append(keys, r.Key)
	}
	require.Equal(t, []string{"put", "stock", "marked"}, payloads)
	require.Equal(t, []string{"account/cluster", "account/stock", "account/marked"}, keys)
	quiet(t, func(ctx context.Context) error { _, err := c.Next(ctx, 1, 1); return err })
	// What was not for the ingester is acknowledged all the same.
	require.Eventually(t, func() bool { return backlog(t, p, config, "b089") == 0 }, patience, 50*time.Millisecond)
}
