// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer"
	"synchronizer/test/brokers"
)

// TestPartitions: topics with partitions, of which some appear later; a tail reads
// those from their beginning.
func TestPartitions(t *testing.T) {
	p := brokers.SharedPulsar(t)
	config := configOn(t, p)
	config.partitionsNew = 100 * time.Millisecond
	openQueue(t, configOn(t, p)) // makes the namespaces
	const before, later = 2, 3
	path := func(topic string) string {
		return "persistent/" + testTenant + "/" + testNamespace + "/" + topic + "/partitions"
	}
	for _, topic := range []string{config.InTopic, config.OutTopic} {
		p.Admin(t, http.MethodPut, path(topic), strconv.Itoa(before))
	}
	q := openQueue(t, config)
	tail, err := q.Tail(t.Context())
	require.NoError(t, err)
	c, err := q.Consume(t.Context(), "partitions")
	require.NoError(t, err)
	var all []synchronizer.Record
	for i := range 20 {
		all = append(all, numbered(fmt.Sprintf("account/%d", i), 0, 10)...)
	}
	require.NoError(t, q.Publish(bounded(t), synchronizer.In, all))
	require.NoError(t, q.Publish(bounded(t), synchronizer.Out, all))
	for who, records := range map[string][]synchronizer.Record{"tail": tailAll(t, tail, len(all)), "consumer": readAll(t, c, len(all))} {
		partitions := map[string]bool{}
		next := map[string]int{}
		for i := range records {
			partitions[records[i].Partition] = true
			require.Equal(t, strconv.Itoa(next[records[i].Key]), string(records[i].Payload), who)
			next[records[i].Key]++
		}
		require.Len(t, partitions, before, who)
	}

	for _, topic := range []string{config.InTopic, config.OutTopic} {
		p.Admin(t, http.MethodPost, path(topic), strconv.Itoa(later))
		producer := rawProducer(t, p, fmt.Sprintf("persistent://%s/%s/%s-partition-%d", testTenant, testNamespace, topic, later-1))
		for i := range 10 {
			_, err := producer.Send(bounded(t), &client.ProducerMessage{OrderingKey: "account/late", Payload: []byte(strconv.Itoa(i))})
			require.NoError(t, err)
		}
	}
	requireNumbers(t, tailAll(t, tail, 10), 0, 10)
	requireNumbers(t, readAll(t, c, 10), 0, 10)
}

// TestSmallAndLargeInTurn: the order of a key holds over both producers.
func TestSmallAndLargeInTurn(t *testing.T) {
	config := configOn(t, brokers.SharedPulsar(t))
	q := openQueue(t, config)
	q.lanes[synchronizer.Out].maxMessage = smallestMessage // more is large
	c, err := q.Consume(t.Context(), "turn")
	require.NoError(t, err)
	var work errgroup.Group
	const keys, each = 4, 60
	ctx := bounded(t)
	for k := range keys {
		work.Go(func() error {
			for i := 0; i < each; i += 6 {
				var records []synchronizer.Record
				for n := i; n < i+6; n++ {
					size := 10
					if n%(k+2) == 0 {
						size = 2 * smallestMessage
					}
					payload := append([]byte(strconv.Itoa(n)+"|"), noise(n, size)...)
					records = append(records, synchronizer.Record{Key: fmt.Sprintf("account/%d", k), Payload: payload})
				}
				if err := q.Publish(ctx, synchronizer.Out, records); err != nil {
					return err
				}
			}
			return nil
		})
	}
	next := map[string]int{}
	for _, r := range readAll(t, c, keys*each) {
		require.Equal(t, strconv.Itoa(next[r.Key])+"|", string(r.Payload[:len(strconv.Itoa(next[r.Key]))+1]), r.Key)
		next[r.Key]++
	}
	require.NoError(t, work.Wait())
}
