// SPDX-License-Identifier: Apache-2.0

// Package dedup remembers which messages of the backend were applied, so that an
// exact repeat is skipped: servers replay, brokers deliver twice.
//
// A message is known by the SHA-256 of all its bytes on the wire; the same id
// with other content is another message. It is remembered when it has been
// applied successfully, from then on for the time to live: looking it up, or
// meeting it again, does not extend that, and one that failed can be tried again.
// When there are too many the one goes that was applied first. The memory outlives
// connections but not the process.
package dedup

import (
	"crypto/sha256"
	"sync"
	"time"
)

// The defaults of Options.
const (
	DefaultTTL         = 600 * time.Second
	DefaultMaxMessages = 10_000
)

// Fingerprint is the SHA-256 of a whole wire message.
type Fingerprint [sha256.Size]byte

// Of gives the fingerprint of the bytes of a message.
func Of(message []byte) Fingerprint { return sha256.Sum256(message) }

// Options bound a Memory. What is not positive means the default.
type Options struct {
	TTL         time.Duration
	MaxMessages int
	Now         func() time.Time // default time.Now
}

// Memory is used by any number of goroutines. A nil Memory knows nothing: that
// is deduplication turned off. An entry takes about 120 bytes.
type Memory struct {
	options Options

	mu sync.Mutex
	at map[Fingerprint]time.Time
	// order holds the fingerprints of at, in the order in which they were applied;
	// those before first are gone.
	order []Fingerprint
	first int
}

// New makes an empty memory.
func New(options Options) *Memory {
	if options.TTL <= 0 {
		options.TTL = DefaultTTL
	}
	if options.MaxMessages <= 0 {
		options.MaxMessages = DefaultMaxMessages
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Memory{options: options, at: map[Fingerprint]time.Time{}}
}

// Seen tells whether the message was applied within the time to live.
func (m *Memory) Seen(f Fingerprint) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	_, ok := m.at[f]
	return ok
}

// Applied remembers a message that has been applied successfully. One that is
// remembered already keeps its time.
func (m *Memory) Applied(f Fingerprint) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	if _, ok := m.at[f]; ok {
		return
	}
	if len(m.at) >= m.options.MaxMessages {
		m.drop()
	}
	m.at[f] = m.options.Now()
	m.order = append(m.order, f)
}

// expire drops what is too old.
func (m *Memory) expire() {
	now := m.options.Now()
	for m.first < len(m.order) && now.Sub(m.at[m.order[m.first]]) >= m.options.TTL {
		m.drop()
	}
}

// drop forgets the message that was applied first.
func (m *Memory) drop() {
	delete(m.at, m.order[m.first])
	m.first++
	if m.first*2 > len(m.order) {
		m.order = append(m.order[:0], m.order[m.first:]...)
		m.first = 0
	}
}
