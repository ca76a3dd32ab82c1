// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"slices"
	"strconv"

	"synchronizer/internal/checksum"
	"synchronizer/internal/policy"
	"synchronizer/internal/rawjson"
)

// merger does to a current object what differs between it, as the policy shows
// it, and a desired one.
type merger struct {
	secret  bool     // the kind is a Secret
	masked  []string // paths of masks that would be written
	hashes  bool     // something like a hash of the policy would be written
	inexact []string // paths of numbers that the API server would round
	kept    []string // labels and annotations that were to get another value
}

// part is a member of an object that is being built.
type part struct {
	key rawjson.Text
	raw []byte
}

// object merges whole objects. Changed is false if the current object is as
// desired. The result has the resourceVersion of the current object.
func (m *merger) object(current, shown, desired *value) (result []byte, changed bool) {
	var parts []part
	for _, c := range current.members {
		raw, differs, stays := c.raw, false, true
		switch c.name {
		case "apiVersion", "kind", "status":
		case "metadata":
			raw, differs = m.metadata(c.value, shown.get("metadata"), desired.get("metadata"))
		default:
			raw, differs, stays = m.member(c.name, c.value, shown.get(c.name), desired.get(c.name))
		}
		if stays {
			parts = append(parts, part{c.key, raw})
		}
		changed = changed || differs
	}
	for _, d := range desired.members {
		switch d.name {
		case "apiVersion", "kind", "status", "metadata":
			continue
		}
		if current.get(d.name) == nil && !d.absent() {
			parts = append(parts, part{d.key, m.emit(policy.JoinPath("", d.name), d.value)})
			changed = true
		}
	}
	return join(parts), changed
}

// member merges a member that the current object has. It goes if the desired
// object lacks what was shown.
func (m *merger) member(path string, current, shown, desired *value) (raw []byte, changed, stays bool) {
	if desired.absent() {
		gone := !shown.absent()
		return current.raw, gone, !gone
	}
	raw, changed = m.value(path, current, shown, desired)
	return raw, changed, true
}

// value merges values at one place.
func (m *merger) value(path string, current, shown, desired *value) (raw []byte, changed bool) {
	all := func(typ rawjson.Type) bool { return current.is(typ) && shown.is(typ) && desired.is(typ) }
	switch {
	case all(rawjson.Object):
		return m.members(path, current, shown, desired)
	case equal(shown, desired), equal(current, desired):
		return current.raw, false
	case all(rawjson.Array) && len(current.elements) == len(shown.elements):
		return m.array(path, current, shown, desired)
	default:
		return m.emit(path, desired), true
	}
}

func (m *merger) members(path string, current, shown, desired *value) (raw []byte, changed bool) {
	parts := make([]part, 0, len(current.members))
	for _, c := range current.members {
		raw, differs, stays := m.member(policy.JoinPath(path, c.name), c.value, shown.get(c.name), desired.get(c.name))
		if stays {
			parts = append(parts, part{c.key, raw})
		}
		changed = changed || differs
	}
	for _, d := range desired.members {
		if current.get(d.name) == nil && !d.absent() {
			parts = append(parts, part{d.key, m.emit(policy.JoinPath(path, d.name), d.value)})
			changed = true
		}
	}
	if !changed {
		return current.raw, false
	}
	return join(parts), true
}

// array merges arrays that differ. An element of the desired one is laid over the
// element of the same name, or over one that is equal if it has no name. Where
// names or equal elements stand in one array more often than in the other, nobody
// can tell which is which, and the desired element is taken as it is.
func (m *merger) array(path string, current, shown, desired *value) (raw []byte, changed bool) {
	places, count := map[string][]int{}, map[string]int{}
	for i, e := range shown.elements {
		k := label(e)
		places[k] = append(places[k], i)
	}
	labels := make([]string, len(desired.elements))
	for i, e := range desired.elements {
		labels[i] = label(e)
		count[labels[i]]++
	}
	changed = len(current.elements) != len(desired.elements)
	seen := map[string]int{}
	out := []byte{'['}
	for i, d := range desired.elements {
		if i > 0 {
			out = append(out, ',')
		}
		inner := path + "[" + strconv.Itoa(i) + "]"
		k := labels[i]
		if len(places[k]) != count[k] {
			out, changed = append(out, m.emit(inner, d)...), true
			continue
		}
		at := places[k][seen[k]]
		seen[k]++
		raw, differs := m.value(inner, current.elements[at], shown.elements[at], d)
		out = append(out, raw...)
		changed = changed || differs || at != i
	}
	if !changed {
		return current.raw, false
	}
	return append(out, ']'), true
}

// label is what elements of arrays are told apart by.
func label(e *value) string {
	if e.is(rawjson.Object) && e.get("name").is(rawjson.String) {
		return "name " + e.text("name")
	}
	digest, err := checksum.V2(e.raw)
	if err != nil {
		return "raw " + string(e.raw)
	}
	return "like " + string(digest[:])
}

// emit gives a value of the desired object that is to be written as it is.
func (m *merger) emit(path string, v *value) []byte {
	m.inspect(path, v)
	return v.raw
}

// join writes an object.
func join(parts []part) []byte {
	size := 2
	for _, p := range parts {
		size += len(p.key) + len(p.raw) + 2
	}
	out := append(make([]byte, 0, size), '{')
	for i, p := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, p.key...)
		out = append(append(out, ':'), p.raw...)
	}
	return append(out, '}')
}

// owned are the members of metadata that the API server owns.
var owned = []string{
	"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink",
	"deletionTimestamp", "deletionGracePeriodSeconds",
}

// metadata gives the current metadata without what the API server owns (but with
// the resourceVersion), and with the desired labels and annotations that are absent.
func (m *merger) metadata(current, shown, desired *value) (raw []byte, changed bool) {
	var parts []part
	for _, c := range current.members {
		if c.name != "resourceVersion" && slices.Contains(owned, c.name) {
			continue
		}
		raw := c.raw
		if c.name == "labels" || c.name == "annotations" {
			var added bool
			raw, added = m.add(c.name, c.value, shown.get(c.name), desired.get(c.name))
			changed = changed || added
		}
		parts = append(parts, part{c.key, raw})
	}
	for _, name := range []string{"labels", "annotations"} {
		if current.get(name) != nil {
			continue
		}
		if raw, added := m.add(name, &value{raw: []byte("{}"), typ: rawjson.Object}, nil, desired.get(name)); added {
			parts = append(parts, part{rawjson.Text(`"` + name + `"`), raw})
			changed = true
		}
	}
	return join(parts), changed
}

// add adds the desired labels or annotations that are absent.
func (m *merger) add(name string, current, shown, desired *value) (raw []byte, added bool) {
	if !desired.is(rawjson.Object) || !current.is(rawjson.Object) && !current.absent() {
		return current.raw, false
	}
	var parts []part
	for _, c := range current.members {
		parts = append(parts, part{c.key, c.raw})
	}
	outer := policy.JoinPath("metadata", name)
	for _, d := range desired.members {
		switch {
		case d.absent() || name == "annotations" && foreign(d.name):
		case current.get(d.name) == nil:
			parts = append(parts, part{d.key, m.emit(policy.JoinPath(outer, d.name), d.value)})
			added = true
		case !equal(d.value, shown.get(d.name)) && !equal(d.value, current.get(d.name)):
			m.kept = append(m.kept, policy.JoinPath(outer, d.name))
		}
	}
	if !added {
		return current.raw, false
	}
	return join(parts), true
}

// foreign tells the annotations that speak of another copy of the object: the
// manifest of a kubectl apply, which may hold masked text, and a checksum.
func foreign(annotation string) bool {
	return annotation == "kubectl.kubernetes.io/last-applied-configuration" || annotation == checksum.Annotation
}
