// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"sync"
	"time"

	"synchronizer"
	"synchronizer/internal/catalog"
)

// States in which a kind is because of the cluster, beside those of the machine.
const (
	StateAwaited State = "waiting_for_crd" // not served, and nothing of it is known
	StateFailing State = "failing"         // waits for another try after an error
)

// Status is what the agent is doing.
type Status struct {
	Connected bool         `json:"connected"`
	Since     time.Time    `json:"since,omitzero"`      // of the link, if there is one
	Kinds     []KindStatus `json:"kinds"`               // ordered by the kind's text
	Wildcards []string     `json:"wildcards,omitempty"` // as configured
	// Discovery says how it is noticed that kinds come and go; empty: not at all.
	Discovery string `json:"discovery,omitempty"`
}

// KindStatus is what the agent is doing for one kind.
type KindStatus struct {
	Kind      synchronizer.Kind `json:"-"`
	Name      string            `json:"kind"` // "group/version/resource"
	State     State             `json:"state"`
	Since     time.Time         `json:"since,omitzero"`
	Objects   int               `json:"objects"`            // that the agent knows of
	Dirty     int               `json:"dirty"`              // of them, and of deleted ones, those that still have to be told
	Held      bool              `json:"held"`               // very many objects vanished at once; a second list is waited for
	LastEvent time.Time         `json:"lastEvent,omitzero"` // of the cluster; zero if there was none
	Error     string            `json:"reason,omitempty"`   // why the state is not listing or watching
}

// Status returns a snapshot.
func (a *Agent) Status() Status {
	current, _ := a.hub.get()
	all := Status{Connected: current != nil, Kinds: []KindStatus{}}
	if current != nil {
		all.Since = current.started
	}
	a.running.each(func(s *stream, g *gate) {
		seen := s.status.get(s.kind)
		if state, reason, since := g.blocked(); state != "" {
			seen.State, seen.Error, seen.Since = state, reason, since
		}
		all.Kinds = append(all.Kinds, seen)
	})
	for i := range a.options.Kinds {
		if kind := a.options.Kinds[i].Kind; catalog.IsPattern(kind) {
			all.Wildcards = append(all.Wildcards, kind.String())
		}
	}
	if k := a.running.kinds; k != nil {
		all.Discovery = k.how()
	}
	slices.SortFunc(all.Kinds, func(x, y KindStatus) int { return strings.Compare(x.Name, y.Name) })
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
	seen.Kind, seen.Name = kind, kind.String()
	switch {
	case seen.State == "":
		seen.State = StateWaiting
	case seen.State == StateWaiting && seen.Error != "":
		seen.State = StateFailing
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
	if now.Since = s.status.seen.Since; now.State != s.status.seen.State {
		now.Since = s.now()
	}
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
