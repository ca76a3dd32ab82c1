// SPDX-License-Identifier: Apache-2.0

package chunk

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue/queuetest/memory"
	"synchronizer/internal/telemetry/traceparent"
)

const (
	limit = 1 << 10
	group = "chunks"
)

// rig is a consumer behind the layer, on a broker in memory.
type rig struct {
	broker *memory.Broker
	bare   synchronizer.Queue // publishes what it is given
	queue  synchronizer.Queue
	drops  []string // reason and name
}

func newRig(t *testing.T, change func(*Options)) *rig {
	r := &rig{broker: &memory.Broker{MaxRecord: limit}}
	o := Options{MaxRecord: limit, MaxSetBytes: 1 << 20, Expire: time.Minute, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	o.Drop = func(reason synchronizer.DropReason, what string) { r.drops = append(r.drops, string(reason)+": "+what) }
	if change != nil {
		change(&o)
	}
	r.bare = r.broker.Open()
	r.queue = New(r.broker.Open(), o)
	t.Cleanup(func() {
		require.NoError(t, r.bare.Close(context.WithoutCancel(t.Context())))
		require.NoError(t, r.queue.Close(context.WithoutCancel(t.Context())))
		require.True(t, budgetOf(r.queue).TryAcquire(r.queue.(*Queue).MaxBytes), "everything held was given back")
	})
	return r
}

func budgetOf(q synchronizer.Queue) interface{ TryAcquire(int64) bool } { return q.(*Queue).budget }

func small(key string, n int) synchronizer.Record {
	return synchronizer.Record{Key: key, Payload: fmt.Appendf(nil, "small %d", n), Properties: []synchronizer.Property{{Name: "n", Value: strconv.Itoa(n)}}}
}

// large is a record of about ten chunks.
func large(key string, n int) synchronizer.Record {
	return synchronizer.Record{
		Key:     key,
		Payload: bytes.Repeat(fmt.Appendf(nil, "large %06d ", n), 600),
		Properties: []synchronizer.Property{
			{Name: event, Value: "PutObject"}, {Name: "n", Value: strconv.Itoa(n)}, {Name: "name", Value: "web"}, {Name: "group", Value: ""},
		},
	}
}

func (r *rig) chunksOf(t *testing.T, whole synchronizer.Record) []synchronizer.Record {
	chunks, err := r.queue.(*Queue).split(&whole)
	require.NoError(t, err)
	require.Greater(t, len(chunks), 5)
	return chunks
}

func (r *rig) put(t *testing.T, records ...synchronizer.Record) {
	require.NoError(t, r.bare.Publish(t.Context(), synchronizer.Out, records))
}

func (r *rig) consume(t *testing.T) synchronizer.Consumer {
	c, err := r.queue.Consume(t.Context(), group)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// next reads one batch, without waiting for more than a second.
func next(t *testing.T, c synchronizer.Consumer, most int) synchronizer.Batch {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	b, err := c.Next(ctx, most, 1<<20)
	require.NoError(t, err)
	require.NotEmpty(t, b.Records)
	return b
}

// nothing checks that nothing comes for so long.
func nothing(t *testing.T, c synchronizer.Consumer, wait time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	_, err := c.Next(ctx, 1000, 1<<20)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func requireSame(t *testing.T, want, got synchronizer.Record) {
	t.Helper()
	require.Equal(t, want.Key, got.Key)
	require.True(t, bytes.Equal(want.Payload, got.Payload), "payload of %d and %d bytes", len(want.Payload), len(got.Payload))
	require.ElementsMatch(t, want.Properties, got.Properties)
}

// inTime runs a test with a clock that moves when everybody waits.
func inTime(f func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

func TestJoining(t *testing.T) {
	whole := large("account/a", 1)
	for _, test := range []struct {
		name   string
		lay    func(chunks []synchronizer.Record) []synchronizer.Record
		joined int
		drops  []string // beginnings
	}{
		{"in order", func(c []synchronizer.Record) []synchronizer.Record { return c }, 1, nil},
		{"each twice", func(c []synchronizer.Record) (l []synchronizer.Record) {
			for i := range c {
				l = append(l, c[i], c[i])
			}
			return l
		}, 1, nil},
		{"repeated from the middle", func(c []synchronizer.Record) []synchronizer.Record {
			return concat(c[:6], c[3:])
		}, 1, nil},
		{"end repeated when it is complete", func(c []synchronizer.Record) []synchronizer.Record {
			return concat(c, c[4:])
		}, 1, nil},
		{"one late", func(c []synchronizer.Record) []synchronizer.Record {
			return concat(c[:2], c[3:], c[2:3])
		}, 1, nil},
		{"whole set twice", func(c []synchronizer.Record) []synchronizer.Record { return concat(c, c) }, 2, nil},
		{"begun again and not finished", func(c []synchronizer.Record) []synchronizer.Record {
			return concat(c, c[:3])
		}, 1, nil},
		{
			"one missing", func(c []synchronizer.Record) []synchronizer.Record { return concat(c[:4], c[5:]) }, 0,
			[]string{"chunks_missing: PutObject account/a"},
		},
		{
			"first missing", func(c []synchronizer.Record) []synchronizer.Record { return c[1:] }, 0,
			[]string{"chunks_missing: PutObject account/a"},
		},
		{"repeats do not stand in for the missing", func(c []synchronizer.Record) []synchronizer.Record {
			return concat(c[:4], c[:4], c[5:], c[5:])
		}, 0, []string{"chunks_missing: "}},
		{"another count in one", func(c []synchronizer.Record) []synchronizer.Record {
			c[3] = with(c[3], propertyCount, "999")
			return c
		}, 0, []string{"chunks_missing: ", "chunks_missing: "}},
		{"number out of range", func(c []synchronizer.Record) []synchronizer.Record {
			return concat(c[:3], []synchronizer.Record{with(c[3], propertyIndex, strconv.Itoa(len(c))), with(c[3], propertyIndex, "-1")}, c[3:])
		}, 1, []string{"malformed: chunk of PutObject account/a", "malformed: chunk of PutObject account/a"}},
		{"no numbers", func(c []synchronizer.Record) []synchronizer.Record {
			return concat(c[:3], []synchronizer.Record{with(c[3], propertyIndex, ""), with(c[3], propertyCount, "many")}, c[3:])
		}, 1, []string{"malformed: ", "malformed: "}},
		{"no chunk at all", func(c []synchronizer.Record) []synchronizer.Record {
			return []synchronizer.Record{with(c[0], propertyCount, "0")}
		}, 0, []string{"malformed: "}},
		{"a part of another record", func(c []synchronizer.Record) []synchronizer.Record {
			c[3].Payload = bytes.Repeat([]byte("x"), len(c[3].Payload))
			return c
		}, 0, []string{"malformed: PutObject account/a"}},
		{"a part of another length", func(c []synchronizer.Record) []synchronizer.Record {
			c[3].Payload = c[3].Payload[:1]
			return c
		}, 0, []string{"malformed: "}},
	} {
		t.Run(test.name, inTime(func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.MaxSetBytes = len(whole.Payload) })
			r.put(t, test.lay(r.chunksOf(t, whole))...)
			r.put(t, small("account/a", 7))
			c := r.consume(t)
			var joined int
			for last := false; !last; {
				b := next(t, c, 1000)
				for _, got := range b.Records {
					if last = got.Property("n") == "7"; last {
						requireSame(t, small("account/a", 7), got)
						continue
					}
					joined++
					requireSame(t, whole, got)
				}
				require.NoError(t, b.Ack(t.Context()))
			}
			require.Equal(t, test.joined, joined)
			nothing(t, c, 2*time.Minute)
			require.Len(t, r.drops, len(test.drops))
			for i := range test.drops {
				require.Contains(t, r.drops[i], test.drops[i])
			}
			// Nothing is held up for ever, though nothing else is acknowledged.
			require.Equal(t, len(r.broker.Records(synchronizer.Out)), r.broker.Acked(group))
		}))
	}
}

func concat(lists ...[]synchronizer.Record) (all []synchronizer.Record) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func with(r synchronizer.Record, name, value string) synchronizer.Record {
	r.Properties = append([]synchronizer.Property(nil), r.Properties...)
	for i := range r.Properties {
		if r.Properties[i].Name == name {
			r.Properties[i].Value = value
		}
	}
	return r
}

// TestOneIDForTwoRecords: what was joined must be what was split.
func TestOneIDForTwoRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		first, second := r.chunksOf(t, large("account/a", 1)), r.chunksOf(t, large("account/a", 2))
		for i := range second {
			second[i] = with(second[i], propertyID, first[0].Property(propertyID))
		}
		r.put(t, concat(first, second)...)
		r.put(t, small("account/a", 3))
		b := next(t, r.consume(t), 1000)
		require.Len(t, b.Records, 2)
		requireSame(t, large("account/a", 1), b.Records[0])
		require.Equal(t, "3", b.Records[1].Property("n"))
		require.Len(t, r.drops, 1)
		require.Contains(t, r.drops[0], "malformed")
	})
}

// TestInterleaved: records of other keys stand between the chunks; each comes
// when it is complete.
func TestInterleaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		a, b := r.chunksOf(t, large("account/a", 1)), r.chunksOf(t, large("account/b", 2))
		for i := range a {
			r.put(t, a[i], b[i], small("account/c", i))
		}
		batch := next(t, r.consume(t), 1000)
		var order []string
		for _, got := range batch.Records {
			order = append(order, got.Key)
		}
		require.Len(t, order, len(a)+2)
		require.Equal(t, []string{"account/c", "account/a", "account/b", "account/c"}, order[len(order)-4:])
		requireSame(t, large("account/b", 2), batch.Records[len(order)-2])
		require.EqualValues(t, 3*len(a)-1, batch.Records[len(order)-2].Position, "where the last chunk stands")
	})
}

// TestAcknowledgement: nothing is acknowledged from the first chunk of a set on,
// until its record is final.
func TestAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		chunks := r.chunksOf(t, large("account/a", 1))
		r.put(t, small("account/b", 0))
		r.put(t, chunks[:4]...)
		r.put(t, small("account/b", 1), small("account/b", 2))
		c := r.consume(t)
		one := next(t, c, 1) // the broker's batches have one record each
		require.NoError(t, one.Ack(t.Context()))
		require.Equal(t, 1, r.broker.Acked(group))
		two, three := next(t, c, 1), next(t, c, 1)
		require.Equal(t, "1", two.Records[0].Property("n"))
		require.NoError(t, two.Ack(t.Context()))
		require.NoError(t, three.Ack(t.Context()))
		require.Equal(t, 1, r.broker.Acked(group), "the set is incomplete")

		r.put(t, chunks[4:]...)
		r.put(t, small("account/b", 3))
		joined := next(t, c, 1)
		requireSame(t, large("account/a", 1), joined.Records[0])
		require.NoError(t, three.Ack(t.Context()))
		require.Equal(t, 1, r.broker.Acked(group), "the record is in the hands of the caller")
		after := next(t, c, 1)
		require.NoError(t, joined.Ack(t.Context()))
		require.Equal(t, 3+len(chunks), r.broker.Acked(group))
		require.NoError(t, after.Ack(t.Context()))
		require.Equal(t, 4+len(chunks), r.broker.Acked(group))
	})
}

// TestAcknowledgementAfterExpiry: what an incomplete set held up is acknowledged
// although nothing else comes.
func TestAcknowledgementAfterExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.put(t, r.chunksOf(t, large("account/a", 1))[:4]...)
		r.put(t, small("account/b", 1))
		c := r.consume(t)
		require.NoError(t, next(t, c, 1000).Ack(t.Context()))
		nothing(t, c, 59*time.Second)
		require.Equal(t, 0, r.broker.Acked(group))
		require.Empty(t, r.drops)
		nothing(t, c, 2*time.Second)
		require.Equal(t, 5, r.broker.Acked(group))
		require.Len(t, r.drops, 1)
	})
}

// TestRestart: after a crash the whole set comes again.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		chunks := r.chunksOf(t, large("account/a", 1))
		r.put(t, chunks[:4]...)
		r.put(t, small("account/b", 1))
		c, err := r.queue.Consume(t.Context(), group)
		require.NoError(t, err)
		require.NoError(t, next(t, c, 1000).Ack(t.Context()))
		require.NoError(t, c.Close())
		r.put(t, chunks[4:]...)
		b := next(t, r.consume(t), 1000)
		require.Len(t, b.Records, 2)
		require.Equal(t, "1", b.Records[0].Property("n"), "again")
		requireSame(t, large("account/a", 1), b.Records[1])
	})
}

// TestAcknowledgementWithinNoSet: one that is final is acknowledged as a whole
// or not at all, when an older one holds.
func TestAcknowledgementWithinNoSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		final, open := r.chunksOf(t, large("account/a", 1)), r.chunksOf(t, large("account/b", 2))
		r.put(t, small("account/c", 0))
		r.put(t, final[:3]...)
		r.put(t, open[:2]...)
		r.put(t, final[3:]...)
		c, err := r.queue.Consume(t.Context(), group)
		require.NoError(t, err)
		require.NoError(t, next(t, c, 1).Ack(t.Context()))
		b := next(t, c, 1)
		requireSame(t, large("account/a", 1), b.Records[0])
		require.NoError(t, b.Ack(t.Context()))
		require.Equal(t, 1, r.broker.Acked(group), "before the open set lies a part of the other")
		require.NoError(t, c.Close())
		r.put(t, open[2:]...)
		c = r.consume(t)
		b = next(t, c, 1000)
		require.Len(t, b.Records, 2)
		require.NoError(t, b.Ack(t.Context()))
		nothing(t, c, time.Hour)
		require.Empty(t, r.drops)
	})
}

// TestPublishedAgain: a call that failed in the middle is completed by the one
// that repeats it.
func TestPublishedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.put(t, r.chunksOf(t, large("account/a", 1))[:4]...)
		require.NoError(t, r.queue.Publish(t.Context(), synchronizer.Out, []synchronizer.Record{large("account/a", 1)}))
		c := r.consume(t)
		b := next(t, c, 1000)
		require.Len(t, b.Records, 1)
		requireSame(t, large("account/a", 1), b.Records[0])
		require.NoError(t, b.Ack(t.Context()))
		nothing(t, c, time.Hour)
		require.Empty(t, r.drops)
	})
}

// TestPublishedAgainInAnotherTrace is the same record, and comes in one of the two.
func TestPublishedAgainInAnotherTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traced := func(digit string) synchronizer.Record {
			whole := large("account/a", 1)
			whole.Properties = append(whole.Properties, synchronizer.Property{
				Name: traceparent.Name, Value: "00-" + strings.Repeat(digit, 32) + "-" + strings.Repeat(digit, 16) + "-01",
			})
			return whole
		}
		r := newRig(t, nil)
		r.put(t, r.chunksOf(t, traced("1"))[:4]...)
		require.NoError(t, r.queue.Publish(t.Context(), synchronizer.Out, []synchronizer.Record{traced("2")}))
		c := r.consume(t)
		b := next(t, c, 1000)
		require.Len(t, b.Records, 1)
		requireSame(t, traced("1"), b.Records[0])
		require.NoError(t, b.Ack(t.Context()))
		nothing(t, c, time.Hour)
		require.Empty(t, r.drops)
	})
}
