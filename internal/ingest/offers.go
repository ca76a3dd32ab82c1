// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"hash/maphash"

	lru "github.com/hashicorp/golang-lru/v2"

	"synchronizer"
)

// maxOffers bounds what is remembered of open questions, about 200 bytes each.
const maxOffers = 16384

// offer is what led to a question: the checksum that a client announced, and
// whether it was asked with an empty base object.
type offer struct {
	checksum  string
	emptyBase bool
}

// offers remembers, per object and MsgID, what the question was about. It is a
// cache: an offer that was evicted (or lost by a restart) costs one more
// question, nothing else.
type offers struct {
	seed  maphash.Seed
	cache *lru.Cache[uint64, offer]
}

func newOffers() *offers {
	c, err := lru.New[uint64, offer](maxOffers)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &offers{seed: maphash.MakeSeed(), cache: c}
}

// key hashes object and MsgID. Two that collide cost a question as well.
func (o *offers) key(m *synchronizer.Message) uint64 {
	return maphash.Comparable(o.seed, struct {
		key   synchronizer.ObjectKey
		msgID string
	}{m.Key(), m.MsgID})
}
