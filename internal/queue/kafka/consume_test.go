// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/test/brokers"
)

const testGroup = "group"

func mustConsume(t *testing.T, q *Queue) *consumer {
	t.Helper()
	c, err := q.Consume(limited(t), testGroup)
	require.NoError(t, err)
	return c.(*consumer)
}

// committed are the group's offsets per partition.
func committed(t *testing.T, address string, config Config) map[int32]int64 {
	t.Helper()
	offsets, err := admin(t, address).FetchOffsets(limited(t), testGroup)
	require.NoError(t, err)
	all := map[int32]int64{}
	for partition, o := range offsets[config.OutTopic] {
		all[partition] = o.At
	}
	return all
}

// keysOfAll are keys that fill all partitions.
func keysOfAll() []string {
	var keys []string
	for i := range 40 {
		keys = append(keys, fmt.Sprintf("account/%d", i))
	}
	return keys
}

func publishAll(t *testing.T, q *Queue, from, to int) int {
	t.Helper()
	var records []synchronizer.Record
	for _, key := range keysOfAll() {
		records = append(records, numbered(key, from, to, 100)...)
	}
	require.NoError(t, q.Publish(limited(t), synchronizer.Out, records))
	return len(records)
}

// take reads n records without an acknowledgement, and returns the last batch.
func take(t *testing.T, c *consumer, n int) (records []synchronizer.Record, last synchronizer.Batch) {
	t.Helper()
	ctx := limited(t)
	for len(records) < n {
		var err error
		last, err = c.Next(ctx, 50, 1<<20)
		require.NoError(t, err, "after %d of %d", len(records), n)
		records = append(records, last.Records...)
	}
	require.Len(t, records, n)
	return records, last
}

func requireRuns(t *testing.T, records []synchronizer.Record, from int) map[string]int {
	t.Helper()
	next := map[string]int{}
	for i := range records {
		r := &records[i]
		if _, ok := next[r.Key]; !ok {
			next[r.Key] = from
		}
		require.Equal(t, next[r.Key], numberOf(t, r), r.Key)
		next[r.Key]++
	}
	return next
}

// TestAckOfLostPartitions: a member acknowledges late, when partitions have gone
// to another member, who is further already. Nothing of that one moves.
func TestAckOfLostPartitions(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	config.handover = 50 * time.Millisecond
	q, other := mustOpen(t, config), mustOpen(t, config)
	first := mustConsume(t, q)
	n := publishAll(t, q, 0, 5)
	_, batch := take(t, first, n)

	second := mustConsume(t, other) // takes partitions over, with all that is in them
	publishAll(t, q, 5, 10)
	ctx := limited(t)
	var records []synchronizer.Record
	ends := map[string]uint64{}
	for len(ends) < 2 || !done(records, 10) {
		b, err := second.Next(ctx, 50, 1<<20)
		require.NoError(t, err)
		records = append(records, b.Records...)
		for i := range b.Records {
			ends[b.Records[i].Partition] = b.Records[i].Position + 1
		}
		require.NoError(t, b.Ack(ctx))
	}
	requireRuns(t, records, 0)
	before := committed(t, k.Plain, config)
	require.Len(t, before, len(ends))
	require.NoError(t, batch.Ack(ctx))
	after := committed(t, k.Plain, config)
	require.Len(t, after, 4, "of its own partitions it has acknowledged all")
	for partition, at := range before {
		require.Equal(t, at, after[partition], "partition %d is another member's", partition)
	}
}

// done tells whether each key that was seen has reached its end.
func done(records []synchronizer.Record, end int) bool {
	last := map[string]string{}
	for i := range records {
		last[records[i].Key] = records[i].Property("n")
	}
	for _, n := range last {
		if n != fmt.Sprint(end-1) {
			return false
		}
	}
	return true
}

// TestHandover: what a member has in its hands when partitions move is waited for,
// and does not come again.
func TestHandover(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	config.handover = 30 * time.Second
	q, other := mustOpen(t, config), mustOpen(t, config)
	first := mustConsume(t, q)
	_, batch := take(t, first, publishAll(t, q, 0, 5))
	joined := make(chan *consumer, 1)
	go func() {
		c, err := other.Consume(t.Context(), testGroup)
		if err == nil {
			joined <- c.(*consumer)
		}
		close(joined)
	}()
	require.Eventually(t, func() bool {
		first.mu.Lock()
		defer first.mu.Unlock()
		return first.moving != nil
	}, 20*time.Second, time.Millisecond)
	// Next ends with its context meanwhile.
	ctx, cancel := contextWithTimeout(t, 10*time.Millisecond)
	defer cancel()
	_, err := first.Next(ctx, 1, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, batch.Ack(limited(t)))
	second := <-joined
	require.NotNil(t, second)
	publishAll(t, q, 5, 6)
	b, err := second.Next(limited(t), 1000, 1<<20)
	require.NoError(t, err)
	requireRuns(t, b.Records, 5)
}

// network is one that can be cut.
type network struct {
	mu      sync.Mutex
	cut     bool
	refused int
	conns   []net.Conn
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		n.refused++
		return nil, errors.New("cut")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	if err == nil {
		n.conns = append(n.conns, conn)
	}
	return conn, err
}

func (n *network) refusals() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.refused
}

func (n *network) set(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
	for _, conn := range n.conns {
		_ = conn.Close()
	}
	n.conns = nil
}

// TestMemberVanishes without a word, with batches in its hands: another member
// gets them, in order. When it comes back, its acknowledgement moves nothing.
func TestMemberVanishes(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	n := &network{}
	vanishing := config
	vanishing.dial = n.dial
	q, other := mustOpen(t, vanishing), mustOpen(t, config)
	first := mustConsume(t, q)
	all := publishAll(t, q, 0, 5)
	_, batch := take(t, first, all)
	n.set(true)
	second := mustConsume(t, other) // joins, and gets everything when the session has ended
	records, _ := take(t, second, all)
	require.Len(t, requireRuns(t, records, 0), len(keysOfAll()))
	more := publishAll(t, other, 5, 10)
	records, last := take(t, second, more)
	requireRuns(t, records, 5)
	require.NoError(t, last.Ack(limited(t)))
	before := committed(t, k.Plain, config)

	n.set(false)
	require.NoError(t, batch.Ack(limited(t)), "nothing of it is this member's any more")
	require.Equal(t, before, committed(t, k.Plain, config))
}
