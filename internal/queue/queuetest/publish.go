// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer"
)

func testOrderPerKey(t *testing.T, s *suite) {
	q := s.start(t)
	c := s.consume(t, q)
	var records []synchronizer.Record
	for i := range 300 {
		for k := range 3 {
			records = append(records, numbered(fmt.Sprintf("account/cluster-%d", k), i, i+1)...)
		}
	}
	s.publish(t, q, synchronizer.Out, records...)
	requireOrder(t, s.read(t, c, len(records)), 3, 300)
}

func testOrderAcrossCalls(t *testing.T, s *suite) {
	q := s.start(t)
	for i := range 100 {
		s.publish(t, q, synchronizer.Out, numbered("account/cluster", 2*i, 2*i+2)...)
	}
	requireOrder(t, s.read(t, s.consume(t, q), 200), 1, 200)
}

func testManyKeysAtOnce(t *testing.T, s *suite) {
	q := s.start(t)
	c := s.consume(t, q)
	keys, each := 100, s.EachKey
	s.Patience *= 3 // 100,000 records
	ctx := s.ctx(t)
	var publishers errgroup.Group
	for k := range keys {
		publishers.Go(func() error {
			return q.Publish(ctx, synchronizer.Out, numbered(fmt.Sprintf("account/%d", k), 0, each))
		})
	}
	p := newProgress()
	for p.count() < keys*each {
		batch, err := c.Next(ctx, 500, 4<<20)
		require.NoError(t, err, "after %d of %d records", p.count(), keys*each)
		require.NoError(t, p.add(batch.Records))
		require.NoError(t, batch.Ack(ctx))
	}
	require.NoError(t, publishers.Wait())
}

// testAnyRecordSurvives: keys, property names and values, and payloads are any
// text and bytes.
func testAnyRecordSurvives(t *testing.T, s *suite) {
	q := s.start(t)
	c := s.consume(t, q)
	records := []synchronizer.Record{
		{Key: "account/plain", Payload: []byte("{}"), Properties: []synchronizer.Property{{Name: "event", Value: "PutObject"}}},
		{Key: "account/no payload", Properties: []synchronizer.Property{{Name: "event", Value: "DeleteObject"}}},
		{Key: "account/no properties", Payload: []byte{0, 1, 255, '\r', '\n'}},
		{Payload: []byte("no key")},
		{Key: "account/.*> \t\r\n/ünï=2F%41", Payload: []byte("key")},
		{Key: "account/" + strings.Repeat("long.", 400), Payload: []byte("long key")},
		{Key: "account/" + strings.Repeat("long.", 400) + "x", Payload: []byte("another long key")},
		{Key: "account/values", Payload: []byte("values"), Properties: []synchronizer.Property{
			{Name: "lines", Value: "a\r\nb\nNats-Msg-Id: x\r\n\r\n"},
			{Name: "spaces", Value: "  a b\t"},
			{Name: "unicode", Value: "häß 🚀 \u2028"},
			{Name: "bytes", Value: "\x00\x01\x7f\xff"},
			{Name: "percent", Value: "%41 %zz % 100%"},
			{Name: "empty", Value: ""},
			{Name: "long", Value: strings.Repeat("x", 8000)},
		}},
		{Key: "account/percent only", Properties: []synchronizer.Property{{Name: "percent", Value: "%41%0D%"}}},
		{Key: "account/names", Payload: []byte("names"), Properties: []synchronizer.Property{
			{Name: "X-Upper", Value: "1"},
			{Name: "x-upper", Value: "2"},
			{Name: "with space: and colon", Value: "3"},
			{Name: "Nats-Msg-Id", Value: "4"},
			{Name: "nats-rollup", Value: "all"},
			{Name: "Status", Value: "503"},
			{Name: "Description", Value: "No Messages"},
			{Name: "Synchronizer-Escaped", Value: "1"},
			{Name: "Synchronizer-Key", Value: "k"},
			{Name: "ünï", Value: "5"},
			{Name: "per%cent", Value: "6"},
		}},
	}
	s.publish(t, q, synchronizer.Out, records...)
	got := map[string]synchronizer.Record{}
	for _, r := range s.read(t, c, len(records)) {
		got[r.Key] = r
	}
	for _, want := range records {
		r, ok := got[want.Key]
		require.True(t, ok, "key %q", want.Key)
		require.True(t, bytes.Equal(want.Payload, r.Payload), "payload of %q: %q", want.Key, r.Payload)
		// Values that are empty may be left out, as the field does on Kafka; what an
		// adapter does is tested with the broker's own client.
		if got := asMap(r.Properties); !maps.Equal(got, filled(want.Properties)) {
			require.Equal(t, asMap(want.Properties), got, "properties of %q", want.Key)
		}
	}
}

func asMap(list []synchronizer.Property) map[string]string {
	return maps.Collect(func(yield func(string, string) bool) {
		for _, p := range list {
			if !yield(p.Name, p.Value) {
				return
			}
		}
	})
}

func testLargeRecord(t *testing.T, s *suite) { s.carryLarge(t, s.start(t), s.Large) }

func testTooLarge(t *testing.T, s *suite) {
	q := s.start(t)
	large := synchronizer.Record{Key: "account/cluster", Payload: make([]byte, s.MaxPayload+1)}
	properties := synchronizer.Record{Key: "account/cluster", Properties: []synchronizer.Property{
		{Name: "huge", Value: strings.Repeat("x", s.MaxPayload+1)},
	}}
	all := append(numbered("account/cluster", 0, 3), large, properties)
	all = append(all, numbered("account/cluster", 3, 6)...)
	err := q.Publish(s.ctx(t), synchronizer.Out, all)
	require.ErrorIs(t, err, synchronizer.ErrTooLarge)
	var which *synchronizer.TooLargeError
	require.ErrorAs(t, err, &which)
	require.Equal(t, []int{3, 4}, which.At)
	requireOrder(t, s.read(t, s.consume(t, q), 6), 1, 6)
}

func testNothing(t *testing.T, s *suite) {
	q := s.start(t)
	s.publish(t, q, synchronizer.Out)
}

func testDirections(t *testing.T, s *suite) {
	q := s.start(t)
	tail, err := q.Tail(s.ctx(t))
	require.NoError(t, err)
	c := s.consume(t, q)
	s.publish(t, q, synchronizer.DeadLetter, numbered("account/dead", 0, 1)...)
	s.publish(t, q, synchronizer.In, numbered("account/in", 0, 1)...)
	s.publish(t, q, synchronizer.Out, numbered("account/out", 0, 1)...)
	require.Equal(t, "account/in", s.readTail(t, tail, 1)[0].Key)
	require.Equal(t, "account/out", s.read(t, c, 1)[0].Key)
	quiet(t, nextOf(c))
}
