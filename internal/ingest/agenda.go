// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"synchronizer"
)

const (
	// escalateEvery is the least time between two listings of one kind that
	// failing patches have caused: each names all objects of the kind.
	escalateEvery = time.Minute
	// mostEscalated bounds the objects that wait to be listed, over all kinds.
	mostEscalated = 10_000
	// mostFirstSyncs bounds how often a process asks one cluster for kinds of which
	// nothing was heard: a client does not answer for those that it does not have.
	mostFirstSyncs = 3
)

// agenda holds what is to be listed at a later time: kinds with objects that only
// a reconciliation can get, and the first syncs of clusters (with no kind).
// Nothing of it is kept on disk: the next reconciliation gets the objects too,
// and first syncs are found again in the store.
type agenda struct {
	wake chan struct{} // capacity 1: the earliest may be another one now

	mu     sync.Mutex
	due    map[agendaKey]*appointment
	order  byTime                  // those of due; a server's clients may all have come at once
	listed map[agendaKey]time.Time // when a kind was last listed for failing patches
	waits  int                     // objects in due
	asked  map[synchronizer.ClusterID]asked
}

// asked is how often a cluster was asked for a first sync, since it was first seen:
// one that was deleted in the store begins anew.
type asked struct {
	first time.Time
	times int
}

type agendaKey struct {
	synchronizer.ClusterID
	kind synchronizer.Kind
}

type appointment struct {
	agendaKey
	at    time.Time
	exact map[place]struct{}
}

func newAgenda() *agenda {
	return &agenda{wake: make(chan struct{}, 1), due: map[agendaKey]*appointment{}, listed: map[agendaKey]time.Time{}, asked: map[synchronizer.ClusterID]asked{}}
}

// connected makes an appointment for a first sync, unless there is one.
func (a *agenda) connected(id synchronizer.ClusterID, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(agendaKey{ClusterID: id}, at)
}

// asks counts that a cluster is asked, which was first seen at a time; false if it
// was asked often enough.
func (a *agenda) asks(id synchronizer.ClusterID, first time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.asked[id]
	if !of.first.Equal(first) {
		of = asked{first: first}
	}
	of.times++
	a.asked[id] = of
	return of.times <= mostFirstSyncs
}

// escalate has an object listed: now, or when its kind may be listed again. False
// if too many wait.
func (a *agenda) escalate(key synchronizer.ObjectKey, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waits >= mostEscalated {
		return false
	}
	of := agendaKey{key.ClusterID, key.Kind}
	at := now
	if last, ok := a.listed[of]; ok && last.Add(escalateEvery).After(now) {
		at = last.Add(escalateEvery)
	}
	p := a.add(of, at)
	if p.exact == nil {
		p.exact = map[place]struct{}{}
	}
	before := len(p.exact)
	p.exact[place{key.Namespace, key.Name}] = struct{}{}
	a.waits += len(p.exact) - before
	return true
}

// add needs the lock. An appointment that exists keeps its time.
func (a *agenda) add(key agendaKey, at time.Time) *appointment {
	p := a.due[key]
	if p == nil {
		p = &appointment{agendaKey: key, at: at}
		a.due[key] = p
		heap.Push(&a.order, p)
		if a.order[0] == p {
			poke(a.wake)
		}
	}
	return p
}

// byTime is a heap of appointments, the earliest first.
type byTime []*appointment

func (h byTime) Len() int           { return len(h) }
func (h byTime) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h byTime) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byTime) Push(p any)        { *h = append(*h, p.(*appointment)) }

func (h *byTime) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return p
}

// next waits for the next appointment and takes it.
func (a *agenda) next(ctx context.Context, clock func() time.Time) (*appointment, error) {
	for {
		p, wait := a.take(clock())
		if p != nil {
			return p, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-a.wake:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

// take gives the earliest appointment if its time has come, else how long to wait.
func (a *agenda) take(now time.Time) (*appointment, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, last := range a.listed {
		if now.Sub(last) >= escalateEvery {
			delete(a.listed, key)
		}
	}
	if len(a.order) == 0 {
		return nil, time.Hour
	}
	if at := a.order[0].at; at.After(now) {
		return nil, at.Sub(now)
	}
	first := heap.Pop(&a.order).(*appointment)
	delete(a.due, first.agendaKey)
	if len(first.exact) > 0 {
		a.waits -= len(first.exact)
		a.listed[first.agendaKey] = now
	}
	return first, 0
}
