// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// testSameIDs: request and answer, and two clusters, may share a message id; a
// broker that detects duplicates by it must not take one for the other. What is
// published again may come once or twice.
func testSameIDs(t *testing.T, s *suite) {
	q := s.start(t)
	c := s.consume(t, q)
	const id = "4a229108-65e0-4cf3-9efa-6c0b4a5b5012"
	record := func(key, event string) synchronizer.Record {
		return synchronizer.Record{Key: key, Payload: fmt.Appendf(nil, `{"msgId":%q,"event":%q}`, id, event), Properties: []synchronizer.Property{
			{Name: "event", Value: event}, {Name: "x-msg-id", Value: id}, {Name: "msgId", Value: id}, {Name: "Nats-Msg-Id", Value: id},
		}}
	}
	get, put := record("account/a", "GetObject"), record("account/a", "PutObject")
	other := record("account/b", "GetObject")
	s.publish(t, q, synchronizer.Out, get)
	s.publish(t, q, synchronizer.Out, put)
	s.publish(t, q, synchronizer.Out, other)
	s.publish(t, q, synchronizer.Out, put) // a retry whose confirmation was lost
	s.publish(t, q, synchronizer.Out, numbered("account/a", 0, 1)...)
	s.publish(t, q, synchronizer.Out, numbered("account/b", 0, 1)...)
	came, ends := map[string]int{}, 0
	for ends < 2 {
		batch, err := c.Next(s.ctx(t), 10, 1<<20)
		require.NoError(t, err)
		for i := range batch.Records {
			r := &batch.Records[i]
			if r.Property("n") != "" {
				ends++
				continue
			}
			came[r.Key+" "+r.Property("event")]++
		}
	}
	require.Equal(t, 1, came["account/a GetObject"])
	require.Contains(t, []int{1, 2}, came["account/a PutObject"])
	require.Equal(t, 1, came["account/b GetObject"])
}

// testAnotherRestarts: a server gets 100 records while another restarts, and 100
// that are published from the moment on that it is ready.
func testAnotherRestarts(t *testing.T, s *suite) {
	q := s.start(t)
	second := s.another(t, q)
	tailed, err := second.Tail(s.ctx(t))
	require.NoError(t, err)
	for i := range 100 {
		s.publish(t, q, synchronizer.In, numbered("account/a", i, i+1)...)
		if i%25 == 24 { // the first pod goes and comes
			first := q
			if !s.OneMember {
				first = s.open(t)
			}
			restarting, err := first.Tail(s.ctx(t))
			require.NoError(t, err)
			require.NoError(t, restarting.Close())
			if !s.OneMember {
				closeQueue(t, first)
			}
		}
	}
	ready, err := s.another(t, q).Tail(s.ctx(t))
	require.NoError(t, err)
	for i := 100; i < 200; i++ {
		s.publish(t, q, synchronizer.In, numbered("account/a", i, i+1)...)
	}
	requireOrder(t, s.readTail(t, tailed, 200), 1, 200)
	late := s.readTail(t, ready, 100)
	require.Equal(t, 100, number(t, &late[0]))
	require.Equal(t, 199, number(t, &late[99]))
}

// testLeftovers: nothing grows on the broker with each restart of a server.
func testLeftovers(t *testing.T, s *suite) {
	for i := range 20 {
		q := s.open(t)
		tailed, err := q.Tail(s.ctx(t))
		require.NoError(t, err)
		s.publish(t, q, synchronizer.In, numbered("account/a", i, i+1)...)
		require.Equal(t, i, number(t, &s.readTail(t, tailed, 1)[0]))
		if i%2 == 0 {
			require.NoError(t, tailed.Close())
		}
		closeQueue(t, q)
	}
	var left []string
	require.Eventually(t, func() bool {
		left = s.Leftovers(t)
		return len(left) == 0
	}, s.Patience, tick, "%v", &left)
}

// testRecordedRecords: what the system in the field says comes through
// unchanged, but for empty properties, which some brokers leave out.
func testRecordedRecords(t *testing.T, s *suite) {
	q := s.start(t)
	c := s.consume(t, q)
	tailed, err := q.Tail(s.ctx(t))
	require.NoError(t, err)
	var records []synchronizer.Record
	for _, r := range RecordedRecords(t) {
		r.Record.Key = "account/cluster" // one key: the order tells which is which
		records = append(records, r.Record)
	}
	s.publish(t, q, synchronizer.Out, records...)
	s.publish(t, q, synchronizer.In, records...)
	for name, got := range map[string][]synchronizer.Record{"consumer": s.read(t, c, len(records)), "tail": s.readTail(t, tailed, len(records))} {
		for i := range records {
			require.Equal(t, string(records[i].Payload), string(got[i].Payload), "%s: %d", name, i)
			require.Equal(t, filled(records[i].Properties), filled(got[i].Properties), "%s: %d", name, i)
			require.Equal(t, records[i].Key, got[i].Key)
		}
	}
}

// filled are the properties that have a value.
func filled(list []synchronizer.Property) map[string]string {
	m := asMap(list)
	for name, value := range m {
		if value == "" {
			delete(m, name)
		}
	}
	return m
}
