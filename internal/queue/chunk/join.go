// SPDX-License-Identifier: Apache-2.0

package chunk

import (
	"fmt"
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"synchronizer"
)

const (
	chunkOverhead = 128 // of one that is held, besides its payload
	// remembered is how many sets that have ended a reader knows, to pass over
	// what a publisher's retry repeats of them.
	remembered = 1024
)

// setKey tells sets apart. The number of chunks belongs to it: publishers with
// other limits split the same record otherwise.
type setKey struct {
	key, id string
	count   int
}

// set is one whose record is not final yet.
type set struct {
	setKey
	chunks     map[int][]byte
	properties []synchronizer.Property
	partition  string
	bytes      int   // of payload
	held       int64 // of the budget
	newest     time.Time
	hold       *hold
}

// hold keeps acknowledgements out of a set.
type hold struct {
	first uint64 // batch of the first chunk
	last  uint64 // batch that completed the set, 0 while it is open
}

// joiner makes whole records of chunks, for one reader. The caller serializes
// its use.
type joiner struct {
	*options
	tail  bool
	owns  func(partition string) bool // nil: not known
	open  map[setKey]*set
	ended *lru.Cache[setKey, bool] // true: joined
	holds map[*hold]struct{}
}

func newJoiner(o *options, tail bool) *joiner {
	ended, err := lru.New[setKey, bool](remembered)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &joiner{options: o, tail: tail, open: map[setKey]*set{}, ended: ended, holds: map[*hold]struct{}{}}
}

// add takes what one batch of the broker brought and returns the whole records
// in it, in the memory of the argument.
func (j *joiner) add(records []synchronizer.Record, batch uint64, now time.Time) []synchronizer.Record {
	whole := records[:0]
	for i := range records {
		if !isChunk(&records[i]) {
			whole = append(whole, records[i])
			continue
		}
		if r, ok := j.chunk(&records[i], batch, now); ok {
			whole = append(whole, r)
		}
	}
	clear(records[len(whole):]) // chunks that are held are held once
	return whole
}

// chunk takes one chunk and returns the record that it completes.
func (j *joiner) chunk(r *synchronizer.Record, batch uint64, now time.Time) (synchronizer.Record, bool) {
	p, ok := partOf(r)
	if !ok {
		j.Drop(synchronizer.DropMalformed, fmt.Sprintf("chunk of %s that is number %q of %q",
			name(r.Key, r.Properties), r.Property(propertyIndex), r.Property(propertyCount)))
		return synchronizer.Record{}, false
	}
	key := setKey{r.Key, p.id, p.count}
	s := j.open[key]
	if s == nil {
		// A set begins with its first chunk. What else comes of one that has ended
		// is what a retry repeats.
		if _, ended := j.ended.Get(key); ended && p.index > 0 {
			return synchronizer.Record{}, false
		}
		s = &set{
			setKey: key, chunks: map[int][]byte{}, properties: restored(r.Properties),
			partition: r.Partition, hold: &hold{first: batch},
		}
		j.open[key] = s
		j.holds[s.hold] = struct{}{}
	}
	s.newest, s.partition = now, r.Partition
	if _, known := s.chunks[p.index]; known {
		return synchronizer.Record{}, false
	}
	cost := int64(len(r.Payload) + chunkOverhead)
	if len(s.chunks) == 0 {
		for _, p := range s.properties {
			cost += int64(len(p.Name) + len(p.Value) + 32)
		}
	}
	switch {
	case s.bytes+len(r.Payload) > j.MaxSetBytes:
		j.drop(s, synchronizer.DropTooLarge, "is larger than "+strconv.Itoa(j.MaxSetBytes)+" bytes")
		return synchronizer.Record{}, false
	case !j.budget.TryAcquire(cost):
		j.drop(s, synchronizer.DropChunks, "does not fit into the "+strconv.FormatInt(j.MaxBytes, 10)+
			" bytes for incomplete records")
		return synchronizer.Record{}, false
	}
	s.held += cost
	s.bytes += len(r.Payload)
	s.chunks[p.index] = r.Payload
	if len(s.chunks) < p.count {
		return synchronizer.Record{}, false
	}
	return j.complete(s, r, batch)
}

// complete joins a set whose last chunk is r.
func (j *joiner) complete(s *set, r *synchronizer.Record, batch uint64) (synchronizer.Record, bool) {
	whole := synchronizer.Record{
		Key: r.Key, Properties: s.properties, Partition: r.Partition, Position: r.Position,
		Payload: make([]byte, 0, s.bytes),
	}
	for i := range s.count {
		whole.Payload = append(whole.Payload, s.chunks[i]...)
	}
	if identity(&whole) != s.id {
		j.drop(s, synchronizer.DropMalformed, "is not what was split: its chunks do not belong together")
		return synchronizer.Record{}, false
	}
	j.end(s, true)
	// Until the record is final the chunks before its last must come again too.
	s.hold.last = batch
	j.holds[s.hold] = struct{}{}
	return whole, true
}

// end forgets a set.
func (j *joiner) end(s *set, joined bool) {
	delete(j.open, s.setKey)
	delete(j.holds, s.hold)
	j.ended.Add(s.setKey, joined)
	j.budget.Release(s.held)
	s.held = 0
}

// drop ends a set that is lost.
func (j *joiner) drop(s *set, reason synchronizer.DropReason, why string) {
	j.end(s, false)
	j.Drop(reason, fmt.Sprintf("%s in %d chunks, of which %d came (%d bytes): %s",
		name(s.key, s.properties), s.count, len(s.chunks), s.bytes, why))
}

// expire ends the sets that wait too long, and those that another member
// reads now.
func (j *joiner) expire(now time.Time) {
	for _, s := range j.open {
		joined, _ := j.ended.Peek(s.setKey)
		_, begun := s.chunks[0]
		switch {
		case j.owns != nil && !j.owns(s.partition):
			j.end(s, false)
		case now.Sub(s.newest) < j.Expire:
		case joined:
			j.end(s, true) // what an interrupted retry repeats of it
		case j.tail && !begun:
			j.end(s, false) // it began before the tail
		default:
			j.drop(s, synchronizer.DropChunks, "the others did not come within "+j.Expire.String())
		}
	}
}

// wait is how long it takes until a set may expire; false if none is open.
func (j *joiner) wait(now time.Time) (time.Duration, bool) {
	shortest, found := j.Expire, false
	for _, s := range j.open {
		shortest, found = min(shortest, s.newest.Add(j.Expire).Sub(now)), true
	}
	return max(shortest, 0), found
}

// before returns the last batch that may be acknowledged when all up to final
// are. It lies within no set: a part of one that is final already would come
// again without the rest, and count as a loss.
func (j *joiner) before(final uint64) uint64 {
	last := final
	for again := true; again; {
		again = false
		for h := range j.holds {
			if h.first <= last && (h.last == 0 || h.last > last) {
				last, again = h.first-1, true
			}
		}
	}
	return last
}

// acknowledged forgets what no longer holds.
func (j *joiner) acknowledged(last uint64) {
	for h := range j.holds {
		if h.last != 0 && h.last <= last {
			delete(j.holds, h)
		}
	}
}

// close gives back what is held.
func (j *joiner) close() {
	for _, s := range j.open {
		j.end(s, false)
	}
}

// name says which record it is, for people.
func name(key string, list []synchronizer.Property) string {
	r := synchronizer.Record{Properties: list}
	what := r.Property(propertyEvent)
	if what == "" {
		what = r.Property(event)
	}
	return fmt.Sprintf("%s %s %s/%s/%s %s/%s", what, key, r.Property("group"), r.Property("version"),
		r.Property("resource"), r.Property("namespace"), r.Property("name"))
}
