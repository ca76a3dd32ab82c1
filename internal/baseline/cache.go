// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"bytes"
	"fmt"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/klauspost/compress/zstd"
)

const (
	// DefaultLimit is 32 MiB, room for some twenty thousand objects of 2.7 KB.
	DefaultLimit = 32 << 20

	// overhead is what an entry costs beside its compressed body, in bytes, near
	// enough: its place in the map and in the order, and its key.
	overhead = 256

	// A body above this part of the limit would displace too many others.
	largest = 8

	// window is how far back the compressor looks, in bytes. It bounds the memory
	// of compressor and decompressor: together below 1 MiB.
	window = 128 << 10

	// A larger buffer of the compressor is not kept.
	maxScratch = 256 << 10
)

// Cache holds the last sent body of objects, named by K, within a bound in
// bytes. All kinds of a process share one. It is safe for concurrent use; calls
// about the same key come from one goroutine at a time.
type Cache[K comparable] struct {
	limit   int
	decoder *zstd.Decoder

	packing sync.Mutex // never held together with mu
	encoder *zstd.Encoder
	scratch []byte

	mu    sync.Mutex
	used  int
	order *simplelru.LRU[K, entry]
}

type entry struct {
	packed []byte
	size   int // of the body
}

func (e entry) cost() int { return overhead + cap(e.packed) }

// New makes a cache of at most limit bytes, overhead included; one of 0 bytes
// keeps nothing. An error cannot be caused by limit.
func New[K comparable](limit int) (*Cache[K], error) {
	// One at a time: a kind sends one object after the other anyway, and every
	// further compressor would cost its memory again.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("making a compressor: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("making a decompressor: %w", err)
	}
	c := &Cache[K]{limit: limit, encoder: encoder, decoder: decoder}
	// The order has no bound of its own: Put evicts by bytes.
	c.order, err = simplelru.NewLRU(math.MaxInt, func(_ K, e entry) { c.used -= e.cost() })
	if err != nil {
		return nil, fmt.Errorf("making the order of use: %w", err)
	}
	return c, nil
}

// Put keeps body, which it copies, in place of what was kept for the key, and
// evicts what was not used for longest. A body above an eighth of the limit is
// not kept; what was kept for the key is gone nevertheless.
func (c *Cache[K]) Put(key K, body []byte) {
	var e entry
	keep := len(body) <= c.limit/largest
	if keep {
		e = entry{packed: c.pack(body), size: len(body)}
		keep = e.cost() <= c.limit
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Remove(key)
	if !keep {
		return
	}
	for c.used+e.cost() > c.limit {
		c.order.RemoveOldest()
	}
	c.order.Add(key, e)
	c.used += e.cost()
}

func (c *Cache[K]) pack(body []byte) []byte {
	c.packing.Lock()
	defer c.packing.Unlock()
	c.scratch = c.encoder.EncodeAll(body, c.scratch[:0])
	packed := bytes.Clone(c.scratch)
	if cap(c.scratch) > maxScratch {
		c.scratch = nil
	}
	return packed
}

// Get gives the body that is kept for the key and counts as a use of it. The
// body lies in buf if that is large enough; what buf held is overwritten.
func (c *Cache[K]) Get(key K, buf []byte) (body []byte, ok bool) {
	c.mu.Lock()
	e, ok := c.order.Get(key)
	c.mu.Unlock()
	if !ok {
		return nil, false
	}
	if cap(buf) < e.size {
		buf = make([]byte, 0, e.size)
	}
	body, err := c.decoder.DecodeAll(e.packed, buf[:0]) // packed is never changed
	if err != nil {
		return nil, false
	}
	return body, true
}

// Remove forgets what is kept for the key.
func (c *Cache[K]) Remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Remove(key)
}

// RemoveFunc forgets every key for which match is true, as when a kind is no
// longer synchronized. Match must not call the cache.
func (c *Cache[K]) RemoveFunc(match func(key K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.order.Keys() {
		if match(key) {
			c.order.Remove(key)
		}
	}
}

// Bytes is how much of the limit is used.
func (c *Cache[K]) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// Len is the number of bodies that are kept.
func (c *Cache[K]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}
