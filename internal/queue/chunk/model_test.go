// SPDX-License-Identifier: Apache-2.0

package chunk

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/internal/queue/queuetest/memory"
)

// sent is one record of the model.
type sent struct {
	record  synchronizer.Record
	lost    bool // one of its chunks never reached the broker
	retried bool
}

// layOut draws what publishers of a few keys send, and how it stands on the
// broker: keys interleaved, stretches repeated by retries, chunks lost.
func layOut(rt *rapid.T, q *Queue) (log []synchronizer.Record, byKey map[string][]sent) {
	byKey = map[string][]sent{}
	streams := map[string][]synchronizer.Record{}
	keys := []string{"account/a", "account/b", "account/c"}[:rapid.IntRange(1, 3).Draw(rt, "keys")]
	for _, key := range keys {
		for n := range rapid.IntRange(1, 6).Draw(rt, "records of "+key) {
			s := sent{record: small(key, n)}
			parts := []synchronizer.Record{s.record}
			if rapid.Bool().Draw(rt, "large") {
				s.record.Payload = bytes.Repeat(fmt.Appendf(nil, "%s %d ", key, n), rapid.IntRange(150, 400).Draw(rt, "size"))
				var err error
				parts, err = q.split(&s.record)
				require.NoError(rt, err)
				if rapid.IntRange(0, 3).Draw(rt, "loss") == 0 {
					s.lost = true
					at := rapid.IntRange(0, len(parts)-1).Draw(rt, "lost chunk")
					parts = concat(parts[:at], parts[at+1:])
				}
			}
			// A retry repeats a stretch that ends where the publisher is.
			if len(parts) > 1 && rapid.Bool().Draw(rt, "retry") {
				end := rapid.IntRange(1, len(parts)).Draw(rt, "retried at")
				begin := rapid.IntRange(0, end-1).Draw(rt, "retried from")
				parts = concat(parts[:end], parts[begin:])
				s.retried = true
			}
			byKey[key] = append(byKey[key], s)
			streams[key] = append(streams[key], parts...)
		}
	}
	for left := len(keys); left > 0; {
		key := rapid.SampledFrom(keys).Draw(rt, "next")
		n := min(rapid.IntRange(1, 5).Draw(rt, "run"), len(streams[key]))
		log = append(log, streams[key][:n]...)
		streams[key] = streams[key][n:]
		left = 0
		for _, s := range streams {
			left += min(1, len(s))
		}
	}
	return log, byKey
}

// TestModel: whatever the broker holds, and whenever the reader crashes, every
// record of which all chunks are there becomes final, in order per key (counting
// what is repeated), and none that lacks one.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(rt *rapid.T) { model(t, rt) })
	})
}

// inBubble hides the test's deadline, for which nobody may ask there.
type inBubble struct{ testing.TB }

func model(t *testing.T, rt *rapid.T) {
	drops, restarted := 0, false
	broker := &memory.Broker{}
	open := func() *Queue {
		return New(broker.Open(), Options{
			MaxRecord: limit, Expire: time.Minute,
			Drop: func(reason synchronizer.DropReason, what string) {
				rt.Logf("%s: %s", reason, what)
				drops++
			},
		}).(*Queue)
	}
	q := open()
	defer func() { require.NoError(rt, q.Close(context.WithoutCancel(t.Context()))) }()
	log, byKey := layOut(rt, q)
	laid := 0
	lay := func(n int) {
		n = min(n, len(log)-laid)
		require.NoError(rt, q.Queue.Publish(t.Context(), synchronizer.Out, log[laid:laid+n]))
		laid += n
	}
	reader := newModelReader(rt, byKey)
	c, err := q.Consume(t.Context(), group)
	require.NoError(rt, err)
	var held []synchronizer.Batch
	read := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b, err := c.Next(ctx, rapid.IntRange(1, 8).Draw(rt, "most"), rapid.IntRange(1, 20<<10).Draw(rt, "bytes"))
		if err != nil {
			require.ErrorIs(rt, err, context.DeadlineExceeded)
			return false
		}
		reader.read(b.Records)
		held = append(held, b)
		return true
	}
	acknowledge := func(n int) {
		if n == 0 {
			return
		}
		require.NoError(rt, held[n-1].Ack(t.Context()))
		for _, b := range held[:n] {
			reader.final(b.Records)
		}
		held = held[n:]
	}
	for range rapid.IntRange(0, 30).Draw(rt, "steps") {
		switch rapid.IntRange(0, 5).Draw(rt, "step") {
		case 0, 1:
			lay(rapid.IntRange(1, 10).Draw(rt, "laid"))
		case 2, 3:
			read()
		case 4:
			acknowledge(rapid.IntRange(0, len(held)).Draw(rt, "acknowledged"))
		case 5: // a crash: a new process goes on from what the broker knows
			require.NoError(rt, c.Close())
			require.True(rt, q.budget.TryAcquire(q.MaxBytes), "everything held was given back")
			require.NoError(rt, q.Close(t.Context()))
			held = nil
			reader.restart()
			restarted = true
			q = open()
			c, err = q.Consume(t.Context(), group)
			require.NoError(rt, err)
		}
	}
	lay(len(log))
	drops = 0
	for read() {
	}
	acknowledge(len(held))
	reader.requireAll()
	lost := 0
	for _, list := range byKey {
		for _, s := range list {
			// What a retry repeats of a record that an earlier process has acknowledged
			// cannot be told from a loss.
			if s.lost || (s.retried && restarted) {
				lost++
			}
		}
	}
	nothing(t, c, 2*time.Minute)
	require.LessOrEqual(rt, drops, lost)
	require.Equal(rt, len(log), broker.Acked(group), "nothing is held up for ever")
	require.NoError(rt, c.Close())
}

// modelReader is the ingester of the model.
type modelReader struct {
	rt     *rapid.T
	byKey  map[string][]sent
	seen   map[string]int  // number of the last record per key, -1 for none
	finals map[string]bool // key and number of what is final
}

func newModelReader(rt *rapid.T, byKey map[string][]sent) *modelReader {
	return &modelReader{rt: rt, byKey: byKey, seen: map[string]int{}, finals: map[string]bool{}}
}

// restart: what was read and is not final is forgotten.
func (m *modelReader) restart() { m.seen = map[string]int{} }

func (m *modelReader) read(records []synchronizer.Record) {
	for _, r := range records {
		n, err := strconv.Atoi(r.Property("n"))
		require.NoError(m.rt, err)
		list := m.byKey[r.Key]
		require.False(m.rt, list[n].lost, "%s %d lacks a chunk", r.Key, n)
		require.True(m.rt, bytes.Equal(list[n].record.Payload, r.Payload))
		require.ElementsMatch(m.rt, list[n].record.Properties, r.Properties)
		// Nothing that can be joined is passed over: all up to here were read, by
		// this process or finally by an earlier one.
		last, any := m.seen[r.Key]
		if !any {
			last = -1
		}
		for between := last + 1; between < n; between++ {
			require.True(m.rt, list[between].lost || m.finals[r.Key+strconv.Itoa(between)], "%s: %d came without %d", r.Key, n, between)
		}
		m.seen[r.Key] = n
	}
}

func (m *modelReader) final(records []synchronizer.Record) {
	for _, r := range records {
		m.finals[r.Key+r.Property("n")] = true
	}
}

func (m *modelReader) requireAll() {
	for key, list := range m.byKey {
		for n := range list {
			require.Equal(m.rt, !list[n].lost, m.finals[key+strconv.Itoa(n)], "%s %d", key, n)
		}
	}
}
