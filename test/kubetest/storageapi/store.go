// SPDX-License-Identifier: Apache-2.0

package storageapi

import (
	"fmt"
	"strconv"
	"time"
)

// historySize is how many changes a kind remembers for watches that resume.
const historySize = 10_000

// Mode is how much a watch says.
type Mode int

// The modes of watches.
const (
	// Events tells every change.
	Events Mode = iota
	// Idle opens watches and never says anything on them.
	Idle
	// BookmarksOnly says bookmarks instead of changes: one with the new
	// resourceVersion for each, as if there had been nothing to tell.
	BookmarksOnly
)

// Behaviour is how a kind is served. The zero value is the field's, with
// watches that work.
type Behaviour struct {
	Watch Mode
	// BookmarkEvery sends bookmarks to watches that allow them, unless they are
	// Idle. 0 = only when Bookmark is called.
	BookmarkEvery time.Duration
	// Initial tells a watch without resourceVersion of what exists, as usual API
	// servers do.
	Initial bool
	// Forgetful starts every watch now, whatever its resourceVersion: changes
	// between LIST and WATCH are never told.
	Forgetful bool
	// Full gives whole objects in LIST and WATCH, as usual API servers do.
	Full bool
}

type kind struct {
	objectKind string
	namespaced bool
	fullList   bool

	// guarded by Server.mu
	behaviour Behaviour
	objects   map[string]*object // by namespace/name
	history   []change
	forgotten uint64 // version up to which history is gone
	bookmarks int    // calls of Bookmark
	watching  int
}

// change is a step from one state to the next: old is nil for a new object, now
// for a deleted one, of which gone is what a watch is told.
type change struct {
	version        uint64
	mode           Mode // for the watches that ran when it happened
	old, now, gone *object
}

func newKinds() map[string]*kind {
	kinds := map[string]*kind{}
	for _, k := range served {
		kinds[k.resource] = &kind{
			objectKind: k.kind, namespaced: k.namespaced, fullList: k.fullList, objects: map[string]*object{},
		}
	}
	return kinds
}

func (s *Server) kind(resource string) (*kind, error) {
	k := s.kinds[resource]
	if k == nil {
		return nil, fmt.Errorf("storage API has no resource %q", resource)
	}
	return k, nil
}

// Put creates or replaces an object and returns its resourceVersion. body is
// JSON with spec and whatever else shall be kept; kind, apiVersion, name,
// namespace, uid, creationTimestamp and resourceVersion are set. namespace is
// empty for knownservers.
func (s *Server) Put(resource, namespace, name string, body []byte) (string, error) {
	return s.put(resource, namespace, name, body, true)
}

// PutUnseen is Put without an event: no watch is ever told, only LIST and GET show it.
func (s *Server) PutUnseen(resource, namespace, name string, body []byte) (string, error) {
	return s.put(resource, namespace, name, body, false)
}

func (s *Server) put(resource, namespace, name string, body []byte, told bool) (string, error) {
	k, err := s.kind(resource)
	if err != nil {
		return "", err
	}
	if k.namespaced != (namespace != "") || name == "" {
		return "", fmt.Errorf("storage API has no %s %s/%s: wrong scope or no name", resource, namespace, name)
	}
	d, err := readDocument(body)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.store(k, namespace, name, d, told)
	return strconv.FormatUint(o.version, 10), nil
}

// store writes an object. The caller holds mu, as for remove and wake.
func (s *Server) store(k *kind, namespace, name string, d document, told bool) *object {
	s.version++
	old := k.objects[namespace+"/"+name]
	o := newObject(k, namespace, name, d, s.version, old)
	k.objects[o.key()] = o
	if told {
		s.tell(k, change{version: s.version, old: old, now: o})
	}
	return o
}

// Delete deletes an object; one that does not exist is no error.
func (s *Server) Delete(resource, namespace, name string) error {
	k, err := s.kind(resource)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(k, namespace, name)
	return nil
}

func (s *Server) remove(k *kind, namespace, name string) *object {
	old := k.objects[namespace+"/"+name]
	if old == nil {
		return nil
	}
	s.version++
	delete(k.objects, old.key())
	s.tell(k, change{version: s.version, old: old, gone: old.at(s.version)})
	return old
}

func (s *Server) tell(k *kind, c change) {
	c.mode = k.behaviour.Watch
	k.history = append(k.history, c)
	if excess := len(k.history) - historySize; excess > 0 {
		k.forgotten = k.history[excess-1].version
		k.history = append([]change(nil), k.history[excess:]...)
	}
	s.wake()
}

func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Behave changes how a resource is served from now on; watches that run change
// with it. What an Idle watch was not told it is not told later either.
func (s *Server) Behave(resource string, behaviour Behaviour) error {
	k, err := s.kind(resource)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k.behaviour = behaviour
	s.wake()
	return nil
}

// Bookmark sends the newest resourceVersion to the watches of a resource that
// allow bookmarks and are not Idle.
func (s *Server) Bookmark(resource string) error {
	k, err := s.kind(resource)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.behaviour.Watch != Idle {
		k.bookmarks++
	}
	s.wake()
	return nil
}

// Compact forgets all history: a watch from an older resourceVersion gets 410 in
// its stream.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kinds {
		k.history, k.forgotten = nil, s.version
	}
}

// ResourceVersion returns the newest one.
func (s *Server) ResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.FormatUint(s.version, 10)
}
