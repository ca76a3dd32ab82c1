// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"sync"
	"time"

	"synchronizer"
)

// Status is what the agent is doing.
type Status struct {
	Connected bool
	Kinds     []KindStatus // ordered by the kind's text
}

// KindStatus is what the agent is doing for one kind.
type KindStatus struct {
	Kind      synchronizer.Kind
	State     State
	Objects   int       // that the agent knows of
	Dirty     int       // of them, and of deleted ones, those that still have to be told
	Held      bool      // very many objects vanished at once; a second list is waited for
	LastEvent time.Time // of the cluster; zero if there was none
	Error     string    // the last failure of list or watch that no success followed
}

// Status returns a snapshot.
func (a *Agent) Status() Status {
	current, _ := a.hub.get()
	all := Status{Connected: current != nil}
	for _, s := range a.streams {
		all.Kinds = append(all.Kinds, s.status.get(s.kind))
	}
	slices.SortFunc(all.Kinds, func(x, y KindStatus) int { return strings.Compare(x.Kind.String(), y.Kind.String()) })
	return all
}

// status is what the owner of a kind publishes.
type status struct {
	mu   sync.Mutex
	seen KindStatus
	last time.Time // not published yet; only the owner uses it
}

func (s *status) event(now time.Time) { s.last = now }

func (s *status) get(kind synchronizer.Kind) KindStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	seen.Kind = kind
	if seen.State == "" {
		seen.State = StateWaiting
	}
	return seen
}

// publish makes the state of the machine visible to others.
func (s *stream) publish() {
	m := s.machine
	now := KindStatus{
		State: m.state, Objects: len(m.objects), Dirty: m.pending(),
		Held: !m.confirmAt.IsZero() || m.confirmed, LastEvent: s.status.last,
	}
	if m.lastErr != nil {
		now.Error = m.lastErr.Error()
	}
	s.status.mu.Lock()
	before := s.status.seen.Error
	s.status.seen = now
	s.status.mu.Unlock()
	switch {
	case now.Error == before:
	case now.Error == "":
		s.agent.options.Logger.Info("kind is synchronized again", "kind", s.kind.String())
	default:
		s.agent.options.Logger.Warn("kind is not synchronized for now", "kind", s.kind.String(), "state", string(now.State), "error", now.Error)
	}
}
