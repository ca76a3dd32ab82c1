// SPDX-License-Identifier: Apache-2.0

package storageapi

import (
	"net/url"
	"slices"
)

// Request is one request about a resource that has reached the server. What
// kube-apiserver refuses does not.
type Request struct {
	Verb                      string // get, list, watch, create, update, delete, …
	Resource, Namespace, Name string // of a create, Name is empty
	Query                     url.Values
	User                      string // who asked kube-apiserver
	Groups                    []string
}

// Requests returns all requests since New or ResetCounts, in their order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Gets counts the reads of one object, found or not.
func (s *Server) Gets(resource, namespace, name string) int {
	return s.count(func(r Request) bool {
		return r.Verb == "get" && r.Resource == resource && r.Namespace == namespace && r.Name == name
	})
}

// Lists counts the list requests of a resource, each page.
func (s *Server) Lists(resource string) int {
	return s.count(func(r Request) bool { return r.Verb == "list" && r.Resource == resource })
}

// Watches counts the watch requests of a resource, refused ones included.
func (s *Server) Watches(resource string) int {
	return s.count(func(r Request) bool { return r.Verb == "watch" && r.Resource == resource })
}

// Watching counts the watches of a resource that run now.
func (s *Server) Watching(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.kinds[resource]; k != nil {
		return k.watching
	}
	return 0
}

// ResetCounts forgets the requests so far.
func (s *Server) ResetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

func (s *Server) count(counts func(Request) bool) int {
	n := 0
	for _, r := range s.Requests() {
		if counts(r) {
			n++
		}
	}
	return n
}
