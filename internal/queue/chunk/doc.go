// SPDX-License-Identifier: Apache-2.0

// Package chunk carries records that are larger than the broker's limit: it
// stands around any synchronizer.Queue, splits such a record when it is
// published, and joins it again when it is read. Every other record passes as it
// is.
//
// A chunk is a record with the key and all properties of the whole, so that it
// stays in its order and is recognizable in a dump, except for its event, which
// is "Chunk": a consumer that does not know this package ignores the word,
// instead of taking a part of a document for a document. Properties whose names
// begin with "x-chunk-" belong to this package.
//
// The id of a set is a hash of the whole record. Publishing it again gives the
// same set, so that what an interrupted call left on the broker is completed by
// the call that repeats it; and what was joined is known to be what was split.
//
// An acknowledgement never passes the first chunk of a set whose record is not
// final yet. After a crash the whole set comes again.
package chunk
