// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer"
	"synchronizer/test/brokers"
)

// unload lets the broker hand a topic over, to itself.
func unload(t *testing.T, p *brokers.Pulsar, topic string) {
	t.Helper()
	p.Admin(t, http.MethodPut, "persistent/"+testTenant+"/"+testNamespace+"/"+topic+"/unload", "")
}

// TestUnloadInMidTraffic: the broker closes producers, readers and consumers, as it
// does when it hands a topic to another broker, while the readers have fetched more
// than they handed out. Nothing is lost, and what is new comes in order.
func TestUnloadInMidTraffic(t *testing.T) {
	p := brokers.SharedPulsar(t)
	config := configOn(t, p)
	q := openQueue(t, config)
	tail, err := q.Tail(t.Context())
	require.NoError(t, err)
	c, err := q.Consume(t.Context(), "unload")
	require.NoError(t, err)
	const total, each, unloads = 3000, 20, 4
	ctx := bounded(t)
	var work errgroup.Group
	for _, d := range []synchronizer.Direction{synchronizer.In, synchronizer.Out} {
		work.Go(func() error {
			for i := 0; i < total; i += each {
				if err := q.Publish(ctx, d, numbered("account/cluster", i, i+each)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	work.Go(func() error {
		for range unloads {
			<-time.After(200 * time.Millisecond) // any moment is good
			for _, topic := range []string{config.InTopic, config.OutTopic} {
				unload(t, p, topic)
			}
		}
		return nil
	})
	next := map[string]int{}
	see := func(who string, records []synchronizer.Record) {
		for i := range records {
			n, err := strconv.Atoi(string(records[i].Payload))
			require.NoError(t, err)
			require.LessOrEqual(t, n, next[who], "%s misses records", who)
			next[who] = max(next[who], n+1)
		}
	}
	for next["tail"] < total || next["consumer"] < total {
		if next["tail"] < total {
			records, err := tail.Next(ctx)
			require.NoError(t, err, "after %v", next)
			see("tail", records)
		}
		if next["consumer"] < total {
			batch, err := c.Next(ctx, 50, 1<<20)
			require.NoError(t, err, "after %v", next)
			see("consumer", batch.Records)
			_ = batch.Ack(ctx) // if not, they come again
		}
	}
	require.NoError(t, work.Wait())
}
