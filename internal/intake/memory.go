// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"sync"
	"time"
)

// maxKept bounds the decisions that are kept, of each sort: about 1 MiB.
const maxKept = 4096

// memory keeps decisions for some seconds, and knows which are being asked for.
// Refusals are kept apart, so that a flood of bad tokens pushes out no good one.
type memory struct {
	now func() time.Time

	mu       sync.Mutex
	allowed  *kept
	refused  *kept
	underway map[key]*flight
}

// flight is a decision that is being asked for. Verdict and err may be read once
// done is closed.
type flight struct {
	begun   time.Time
	done    chan struct{}
	verdict verdict
	err     error
}

func newMemory(now func() time.Time) *memory {
	return &memory{now: now, allowed: newKept(), refused: newKept(), underway: map[key]*flight{}}
}

// find gives a decision that still holds. Else it gives the flight to wait for;
// a leader has to settle it.
func (m *memory) find(k key) (v verdict, f *flight, leader, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for _, kept := range []*kept{m.allowed, m.refused} {
		if e, found := kept.entries[k]; found && now.Before(e.until) {
			return e.verdict, nil, false, true
		}
	}
	if f := m.underway[k]; f != nil {
		return verdict{}, f, false, false
	}
	f = &flight{begun: now, done: make(chan struct{})}
	m.underway[k] = f
	return verdict{}, f, true, false
}

// settle tells all who wait; an error is told and forgotten.
func (m *memory) settle(k key, f *flight, v verdict, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.underway, k)
	f.verdict, f.err = v, err
	close(f.done)
	switch {
	case err != nil:
	case v.status == 0:
		m.refused.forget(k)
		m.allowed.put(k, v, f.begun.Add(allowedFor))
	default:
		m.allowed.forget(k)
		m.refused.put(k, v, f.begun.Add(refusedFor))
	}
}

// kept are decisions of one sort; the oldest goes first. The memory's mutex
// guards it.
type kept struct {
	entries map[key]entry
	ring    []key // in the order of arrival
	next    int
}

type entry struct {
	verdict verdict
	until   time.Time
	place   int // in the ring
}

func newKept() *kept { return &kept{entries: map[key]entry{}} }

func (s *kept) forget(k key) { delete(s.entries, k) }

func (s *kept) put(k key, v verdict, until time.Time) {
	if len(s.ring) < maxKept {
		s.ring = append(s.ring, k)
	} else if old := s.ring[s.next]; s.entries[old].place == s.next {
		delete(s.entries, old)
	}
	s.ring[s.next] = k
	s.entries[k] = entry{v, until, s.next}
	s.next = (s.next + 1) % maxKept
}
