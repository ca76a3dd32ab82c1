// SPDX-License-Identifier: Apache-2.0

package index

import (
	"fmt"
	"slices"

	"synchronizer"
	"synchronizer/internal/checksum"
)

// Audit compares what is stored of objects twice. It is told every object and every
// row of an index, in any order, and then says what does not agree. It keeps two
// numbers per kind and namespace, not the rows.
type Audit struct {
	kinds map[int64]*kindAudit
	each  func(problem string)
}

type kindAudit struct {
	objects       int64
	labels, words tally
	sets          map[string]checksum.Set
}

// tally is a set of rows: their number and the XOR of their hashes.
type tally struct {
	rows int64
	hash uint64
}

func (t *tally) add(term, obj int64) {
	x := uint64(term)*0x9e3779b97f4a7c15 ^ uint64(obj)*0xc2b2ae3d27d4eb4f
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	t.rows++
	t.hash ^= x ^ x>>32
}

// NewAudit makes one that calls each for every problem.
func NewAudit(each func(problem string)) *Audit {
	return &Audit{kinds: map[int64]*kindAudit{}, each: each}
}

// Stored is an object as it is stored, without what cannot be wrong.
type Stored struct {
	Kind, ID int64
	Key      synchronizer.ObjectKey
	Digest   [16]byte
	Hash     [16]byte // of the entry
	Labels   Labels
	Words    Words
	Body     []byte
	Live     bool
}

// Object checks one object by itself, and notes what the indexes must have.
func (a *Audit) Object(s *Stored) {
	if !s.Live {
		if s.Labels != "" || len(s.Words) > 0 {
			a.problem(s, "a tombstone has labels or words")
		}
		return
	}
	entry := Of(&s.Key, s.Body)
	if entry.Labels != s.Labels {
		a.problem(s, fmt.Sprintf("stored labels are %s, those of the body %s", s.Labels, entry.Labels))
	}
	if !slices.Equal(entry.Words, s.Words) {
		a.problem(s, "stored words are not those of the object")
	}
	var set checksum.Set
	set.Add(s.Key.Namespace, s.Key.Name, s.Digest)
	if set.Hash != s.Hash {
		a.problem(s, "the hash of its digest is wrong")
	}
	k := a.kind(s.Kind)
	k.objects++
	sum := k.sets[s.Key.Namespace]
	sum.Merge(checksum.Set{Hash: s.Hash, Count: 1})
	k.sets[s.Key.Namespace] = sum
	for _, label := range entry.Labels.Hashes() {
		k.labels.add(label, s.ID)
	}
	for _, word := range entry.Words {
		k.words.add(word, s.ID)
	}
}

func (a *Audit) problem(s *Stored, text string) { a.each(s.Key.String() + ": " + text) }

func (a *Audit) kind(number int64) *kindAudit {
	k := a.kinds[number]
	if k == nil {
		k = &kindAudit{sets: map[string]checksum.Set{}}
		a.kinds[number] = k
	}
	return k
}

// Rows compares an index with the objects: read calls its function for every row
// of it.
func (a *Audit) Rows(words bool, read func(row func(kind, term, obj int64)) error) error {
	found := map[int64]*tally{}
	err := read(func(kind, term, obj int64) {
		t := found[kind]
		if t == nil {
			t = &tally{}
			found[kind] = t
		}
		t.add(term, obj)
	})
	if err != nil {
		return err
	}
	name := "labels"
	if words {
		name = "words"
	}
	for number, k := range a.kinds {
		want := k.labels
		if words {
			want = k.words
		}
		have := found[number]
		if have == nil {
			have = &tally{}
		}
		delete(found, number)
		if *have != want {
			a.each(fmt.Sprintf("the index of %s of kind %d has %d rows that do not agree with the objects, which have %d", name, number, have.rows, want.rows))
		}
	}
	for number, t := range found {
		a.each(fmt.Sprintf("the index of %s has %d rows of kind %d, which has no objects", name, t.rows, number))
	}
	return nil
}

// Kind compares the number of objects that is stored of a kind.
func (a *Audit) Kind(number int64, name string, objects int64) {
	if counted := a.kind(number).objects; counted != objects {
		a.each(fmt.Sprintf("kind %s is said to have %d objects and has %d", name, objects, counted))
	}
}

// Sets compares the sets that are stored, by kind and namespace; empty ones count
// for nothing.
func (a *Audit) Sets(stored map[int64]map[string]checksum.Set) {
	for number, k := range a.kinds {
		for ns, want := range k.sets {
			if have := stored[number][ns]; have != want {
				a.each(fmt.Sprintf("the set of kind %d in namespace %q has %d objects that do not agree with the rows, which are %d", number, ns, have.Count, want.Count))
			}
		}
	}
	for number, spaces := range stored {
		for ns, have := range spaces {
			k := a.kinds[number]
			if k == nil || k.sets[ns] == (checksum.Set{}) {
				if have != (checksum.Set{}) {
					a.each(fmt.Sprintf("the set of kind %d in namespace %q has %d objects, and there are none", number, ns, have.Count))
				}
			}
		}
	}
}
