// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"crypto/sha256"
	"encoding/binary"
)

// Digest is SHA-256 cut to 128 bits.
type Digest = [16]byte

// Set is the hash of a set of objects: the XOR of the hashes of its entries, and
// their number. The zero value is the empty set. Sets are equal if they compare
// equal with ==. It does not notice whether an entry that is added is there
// already, or one that is removed is not: the caller keeps the entries.
type Set struct {
	Hash  [16]byte
	Count int64
}

// Add puts an entry in. The namespace of cluster-scoped objects is empty.
func (s *Set) Add(namespace, name string, digest Digest) {
	s.mix(namespace, name, digest)
	s.Count++
}

// Remove takes out an entry that was added with the same values.
func (s *Set) Remove(namespace, name string, digest Digest) {
	s.mix(namespace, name, digest)
	s.Count--
}

// Merge adds all entries of another, disjoint set.
func (s *Set) Merge(other Set) {
	for i := range s.Hash {
		s.Hash[i] ^= other.Hash[i]
	}
	s.Count += other.Count
}

func (s *Set) mix(namespace, name string, digest Digest) {
	entry := hashStrings(digest[:], namespace, name)
	for i := range s.Hash {
		s.Hash[i] ^= entry[i]
	}
}

// Hollow stands for the digest of an object whose list entry lacks the body
// (storage group): it changes when the object does.
func Hollow(uid, resourceVersion string) Digest {
	return hashStrings(nil, uid, resourceVersion)
}

// hashStrings hashes a prefix of fixed length and then each string with its
// length before it, so that different lists never give the same bytes.
func hashStrings(prefix []byte, list ...string) Digest {
	var space [512]byte
	buf := append(space[:0], prefix...)
	for _, s := range list {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(s)))
		buf = append(buf, s...)
	}
	full := sha256.Sum256(buf)
	return Digest(full[:16])
}
