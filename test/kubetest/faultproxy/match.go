// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
)

// target is what a request is about, read from its path as an API server does.
type target struct {
	verb                      string // get, list, watch, create, update, patch, delete; "" outside of resources
	group, version            string
	resource, namespace, name string
	subresource               string
	continued, initialEvents  bool
	query                     url.Values
}

func readTarget(r *http.Request) target {
	t := target{query: r.URL.Query()}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		t.version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.group, t.version, parts = parts[1], parts[2], parts[3:]
	default:
		return t
	}
	if parts[0] == "namespaces" && len(parts) > 2 && !namespacePart(parts[2]) {
		t.namespace, parts = parts[1], parts[2:]
	}
	t.resource = parts[0]
	if len(parts) > 1 {
		t.name = parts[1]
	}
	if len(parts) > 2 {
		t.subresource = strings.Join(parts[2:], "/")
	}
	t.continued = t.query.Get("continue") != ""
	t.initialEvents = isTrue(t.query.Get("sendInitialEvents"))
	t.verb = t.readVerb(r.Method)
	if t.name == "" && (t.verb == "list" || t.verb == "watch") {
		if selector, err := fields.ParseSelector(t.query.Get("fieldSelector")); err == nil {
			t.name, _ = selector.RequiresExactMatch("metadata.name")
		}
	}
	return t
}

// namespacePart tells the parts of the object Namespace from kinds in a namespace.
func namespacePart(part string) bool { return part == "status" || part == "finalize" }

func (t target) readVerb(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		switch {
		case isTrue(t.query.Get("watch")):
			return "watch"
		case t.name == "":
			return "list"
		}
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	}
	return strings.ToLower(method)
}

// isTrue reads a boolean of a query, of which the API server takes any but these as true.
func isTrue(value string) bool {
	return value != "" && value != "0" && !strings.EqualFold(value, "false")
}

// Match says which requests a fault is for. The zero Match is every request; its
// methods return a narrower one.
type Match struct {
	verb            string
	resource, group string
	grouped         bool
	namespace, name string
	query           url.Values
	continued       bool
	initialEvents   bool

	skip, times int // times 0 = all
	chance      float64
	seed        uint64
}

// Request matches a verb (get, list, watch, create, update, patch, delete) and a
// resource ("deployments", "deployments.apps"). Empty = any.
func Request(verb, resource string) Match {
	m := Match{verb: verb}
	m.resource, m.group, m.grouped = strings.Cut(resource, ".")
	return m
}

// Watch matches watches of a resource, those that begin with a list included.
func Watch(resource string) Match { return Request("watch", resource) }

// List matches lists of a resource, each page.
func List(resource string) Match { return Request("list", resource) }

// Get matches reads of single objects.
func Get(resource string) Match { return Request("get", resource) }

// In limits m to requests about one namespace by their path.
func (m Match) In(namespace string) Match { m.namespace = namespace; return m }

// Named limits m to one object, by path or by the field selector metadata.name.
func (m Match) Named(name string) Match { m.name = name; return m }

// Query limits m to requests that have a parameter of their query; an empty
// value matches any that is not empty.
func (m Match) Query(key, value string) Match {
	query := url.Values{key: {value}}
	for k, v := range m.query {
		query[k] = v
	}
	m.query = query
	return m
}

// Continued limits m to the pages of a list behind the first.
func (m Match) Continued() Match { m.continued = true; return m }

// StreamingList limits m to watches that ask for the list as events (sendInitialEvents).
func (m Match) StreamingList() Match { m.initialEvents = true; return m }

// Nth strikes the nth matching request only, from 1; with Times(k) it and the
// k-1 behind it.
func (m Match) Nth(n int) Match {
	m.skip = n - 1
	if m.times == 0 {
		m.times = 1
	}
	return m
}

// Times strikes at most n requests; without it all are struck.
func (m Match) Times(n int) Match { m.times = n; return m }

// Sometimes strikes with a probability (0 to 1), the same requests for the same
// seed if they come in the same order.
func (m Match) Sometimes(chance float64, seed uint64) Match {
	m.chance, m.seed = chance, seed
	return m
}

func (m Match) matches(t target) bool {
	for key, values := range m.query {
		got := t.query.Get(key)
		if got == "" || values[0] != "" && got != values[0] {
			return false
		}
	}
	return (m.verb == "" || m.verb == t.verb) &&
		(m.resource == "" || m.resource == t.resource) &&
		(!m.grouped || m.group == t.group) &&
		(m.namespace == "" || m.namespace == t.namespace) &&
		(m.name == "" || m.name == t.name) &&
		(!m.continued || t.continued) &&
		(!m.initialEvents || t.initialEvents)
}
