// SPDX-License-Identifier: Apache-2.0

package index

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

const (
	// wordsLimit is how many words of one object are found again; those of its
	// name come first.
	wordsLimit = 128
	// wordBytes is how much of a word counts.
	wordBytes = 128
	// hashBytes is the size of the hash of a word: of a million different words,
	// one in 300 million shares its hash with the one that is searched for.
	hashBytes = 6
)

// Words are the hashes of an object's words, sorted, each once.
type Words []int64

// Entry is what can be searched for of one object.
type Entry struct {
	Labels Labels
	Words  Words
}

// OfRow gives the entry of a row: that which came with it, else that of its body.
func OfRow(row *synchronizer.Row) Entry {
	if row.Terms != nil {
		return Entry{Labels: Labels(row.Terms.Labels), Words: row.Terms.Words}
	}
	return Of(&row.Key, row.Body)
}

// Terms are what a row takes along, for OfRow.
func (e Entry) Terms() *synchronizer.Terms {
	return &synchronizer.Terms{Labels: string(e.Labels), Words: e.Words}
}

// Of gives the entry of an object. A body that is not JSON has no labels and no
// images; it is found by its name all the same.
func Of(key *synchronizer.ObjectKey, body []byte) Entry {
	labels, images, _ := rawjson.LabelsAndImages(body)
	return of(key, labels, images)
}

// OfObject is Of, for somebody who has read the object already.
func OfObject(key *synchronizer.ObjectKey, meta *rawjson.Meta, images []string) Entry {
	return of(key, meta.Labels(), images)
}

func of(key *synchronizer.ObjectKey, labels map[string]string, images []string) Entry {
	words := make(Words, 0, 32)
	words = words.add(key.Name)
	words = words.add(key.Namespace)
	names := labelNames(labels)
	for _, name := range names {
		words = words.add(labels[name])
	}
	for _, image := range images {
		words = words.add(image)
	}
	return Entry{Labels: labelsText(labels, names), Words: words.sorted()}
}

// labelNames puts labels in order, so that the limit always drops the same words.
func labelNames(labels map[string]string) []string {
	names := make([]string, 0, len(labels))
	for name := range labels {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Search gives the hashes of the words of a search text. Words of one character
// are not indexed and do not count; it is empty if there are no others.
func Search(text string) Words { return Words{}.add(text).sorted() }

// Contain reports whether all of the others are among the words.
func (w Words) Contain(others Words) bool {
	for _, other := range others {
		if _, ok := slices.BinarySearch(w, other); !ok {
			return false
		}
	}
	return true
}

func (w Words) sorted() Words {
	slices.Sort(w)
	return slices.Compact(w)
}

// add appends the words of a text: the longest runs of letters and digits, in
// lower case.
func (w Words) add(text string) Words {
	var space [wordBytes + utf8.UTFMax]byte
	word, count := space[:0], 0
	flush := func() {
		if count > 1 && len(w) < wordsLimit {
			w = append(w, hashOf(word))
		}
		word, count = space[:0], 0
	}
	for _, r := range text {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
		case 'A' <= r && r <= 'Z':
			r += 'a' - 'A'
		case r < utf8.RuneSelf, r == utf8.RuneError, !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			continue
		default:
			r = unicode.ToLower(r)
		}
		count++
		if len(word) < wordBytes {
			word = utf8.AppendRune(word, r)
		}
	}
	flush()
	return w
}

func wordHash(word []byte) int64 {
	sum := sha256.Sum256(word)
	return int64(binary.BigEndian.Uint64(sum[:]) >> (64 - 8*hashBytes))
}

// The words of a fleet are few: names of namespaces, of labels' values, of images.
// Hashing them again for every object took a quarter of the time of reading it, so
// the last word of each slot keeps its hash: at most 1 MiB.
const hashedSlots = 4096

type hashedWord struct {
	word string
	hash int64
}

var (
	hashed     [hashedSlots]atomic.Pointer[hashedWord]
	hashedSeed = maphash.MakeSeed()
)

func hashOf(word []byte) int64 {
	slot := &hashed[maphash.Bytes(hashedSeed, word)%hashedSlots]
	if known := slot.Load(); known != nil && known.word == string(word) {
		return known.hash
	}
	hash := wordHash(word)
	slot.Store(&hashedWord{string(word), hash})
	return hash
}

// Sum tells whether words are the same ones: 63 bits of a hash, 0 for no words.
func (w Words) Sum() int64 {
	if len(w) == 0 {
		return 0
	}
	b := make([]byte, 0, 8*len(w))
	for _, hash := range w {
		b = binary.BigEndian.AppendUint64(b, uint64(hash))
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:])>>1 | 1)
}
