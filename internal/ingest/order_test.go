// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

// statement is what a client once said of one object, and what was true then.
type statement struct {
	record synchronizer.Record
	name   string
}

// GoString keeps a failure readable.
func (s statement) GoString() string {
	return fmt.Sprintf("%s %s %s-%s", s.record.Property("event"), s.name, s.record.Property("x-source"), s.record.Property("x-seq"))
}

// history plays a client that lives through several connections, and keeps what
// is true of every object.
type history struct {
	source string
	seq    uint64
	truth  map[string][]byte // nil: deleted
	uids   int
	said   []statement
}

func (h *history) speak(t *rapid.T, name string, version int) {
	h.seq++
	switch doc := h.truth[name]; rapid.SampledFrom([]string{"put", "put", "delete", "verify", "back"}).Draw(t, "what") {
	case "delete":
		h.truth[name] = nil
		h.said = append(h.said, statement{remove(t, h.source, h.seq, name), name})
	case "verify":
		if doc == nil {
			h.seq--
			return
		}
		h.said = append(h.said, statement{verify(t, h.source, h.seq, name, sum(t, doc)), name})
	case "back": // to a state that it had before: A, B, A
		h.put(t, name, body(name, "u", 0))
	default:
		h.uids++
		h.put(t, name, body(name, fmt.Sprintf("u%d", h.uids%3), version))
	}
}

func (h *history) put(t *rapid.T, name string, doc []byte) {
	h.truth[name] = doc
	h.said = append(h.said, statement{put(t, h.source, h.seq, name, doc), name})
}

// P4: whatever is delivered late, twice and out of order, the row ends in what
// the client said last. Questions are answered as a client would, with the
// newest state.
func TestOrderIsKeptWhateverTheBrokerDoes(t *testing.T) {
	r := newRig(t, nil)
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		h := &history{truth: map[string][]byte{}}
		names := []string{fmt.Sprintf("a%d", run), fmt.Sprintf("b%d", run)}
		for connection := range rapid.IntRange(1, 3).Draw(t, "connections") {
			// A connection is introduced before anything of it is read, so its
			// generation is in the order of connections.
			h.source, h.seq = fmt.Sprintf("run%d-connection%d", run, connection), 0
			r.deliver(t, connected(t, h.source))
			for step := range rapid.IntRange(0, 8).Draw(t, "statements") {
				h.speak(t, rapid.SampledFrom(names).Draw(t, "object"), connection*10+step)
			}
		}
		// Late, twice, out of order, in batches of any size.
		again := rapid.SliceOfN(rapid.SampledFrom(append(h.said, statement{})), 0, 6).Draw(t, "again")
		order := rapid.Permutation(append(h.said[:len(h.said):len(h.said)], again...)).Draw(t, "order")
		for len(order) > 0 {
			n := rapid.IntRange(1, len(order)).Draw(t, "batch")
			var batch []synchronizer.Record
			for _, s := range order[:n] {
				if s.name != "" {
					batch = append(batch, s.record)
				}
			}
			order = order[n:]
			if len(batch) > 0 {
				r.deliver(t, batch...)
			}
		}
		for _, q := range r.questions(t) {
			if doc := h.truth[q.Name]; doc != nil {
				h.seq++
				r.deliver(t, put(t, h.source, h.seq, q.Name, doc))
			}
		}
		for name, doc := range h.truth {
			row := r.row(t, name)
			if doc == nil {
				require.True(t, row == nil || row.Deleted(), "%s is deleted", name)
				continue
			}
			require.NotNil(t, row, name)
			require.Equal(t, string(doc), string(row.Body), name)
		}
	})
}

// The same records once more change nothing at all.
func TestRedeliveryChangesNothing(t *testing.T) {
	r := newRig(t, nil)
	records := []synchronizer.Record{
		connected(t, "s1"), verify(t, "s1", 1, "web", "aa"), put(t, "s1", 2, "web", body("web", "u1", 1)),
		put(t, "s1", 3, "db", body("db", "u2", 1)), remove(t, "s1", 4, "db"),
	}
	r.deliver(t, records...)
	web, db := r.row(t, "web"), r.row(t, "db")
	r.deliver(t, records...)
	require.Empty(t, r.questions(t))
	require.Equal(t, web, r.row(t, "web"))
	require.Equal(t, db, r.row(t, "db"))
}

// Records of a server that stamps nothing are ordered by their place on the
// broker.
func TestUnstampedRecordsAreOrderedByTheBroker(t *testing.T) {
	r := newRig(t, nil)
	at := func(position uint64, doc []byte) synchronizer.Record {
		rec := put(t, "", 0, "web", doc)
		rec.Partition, rec.Position = "out-0", position
		return rec
	}
	r.deliver(t, at(7, body("web", "u1", 2)))
	r.deliver(t, at(6, body("web", "u1", 1)))
	require.Equal(t, string(body("web", "u1", 2)), string(r.row(t, "web").Body))
}

// unstamped is a record as a server in the field makes it, at a place of the broker.
func unstamped(rec synchronizer.Record, position uint64) synchronizer.Record {
	rec.Partition, rec.Position = "out-0", position
	return rec
}

// A client that comes back to a server that stamps nothing, after another one has
// stamped, is newer than what that one has said. What comes again keeps its place.
func TestServersThatStampAndServersThatDoNotTakeTurns(t *testing.T) {
	r := newRig(t, nil)
	version := func(v int) []byte { return body("web", "u", v) }
	first := []synchronizer.Record{unstamped(connected(t, ""), 1), unstamped(put(t, "", 0, "web", version(1)), 2)}
	second := []synchronizer.Record{connected(t, "s1"), put(t, "s1", 1, "web", version(2))}
	third := []synchronizer.Record{unstamped(connected(t, ""), 7), unstamped(put(t, "", 0, "web", version(3)), 8)}
	last := []synchronizer.Record{connected(t, "s2"), put(t, "s2", 1, "web", version(4))}
	for n, batch := range [][]synchronizer.Record{first, second, third, last} {
		r.deliver(t, batch...)
		require.Equal(t, string(version(n+1)), string(r.row(t, "web").Body))
	}
	want := r.row(t, "web")
	// After a crash all of it comes again: in one batch, or one by one.
	all := slices.Concat(first, second, third, last)
	r.deliver(t, all...)
	for _, rec := range all {
		r.deliver(t, rec)
	}
	r.deliver(t, first[1], third[1])
	require.Equal(t, want, r.row(t, "web"))

	// A partition of which no ServerConnected is known is a source as well.
	other := put(t, "", 0, "web", version(5))
	other.Partition, other.Position = "out-1", 3
	r.deliver(t, other)
	require.Equal(t, string(version(5)), string(r.row(t, "web").Body))
}

// A cluster that was deleted is there again with the next connection, also if its
// server stamps nothing; what was said before stays away.
func TestDeletedClusterOfAServerThatStampsNothing(t *testing.T) {
	r := newRig(t, nil)
	before := []synchronizer.Record{unstamped(connected(t, ""), 1), unstamped(put(t, "", 0, "web", body("web", "u", 1)), 2)}
	r.deliver(t, before...)
	require.NoError(t, r.store.DeleteCluster(t.Context(), cluster))
	r.deliver(t, append(before, unstamped(put(t, "", 0, "web", body("web", "u", 2)), 3))...)
	require.Nil(t, r.row(t, "web"))
	r.deliver(t, unstamped(connected(t, ""), 7), unstamped(put(t, "", 0, "db", body("db", "u", 3)), 8))
	require.NotNil(t, r.row(t, "db"))
	r.deliver(t, before...)
	require.Nil(t, r.row(t, "web"))
}
