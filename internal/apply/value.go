// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"bytes"
	"fmt"
	"slices"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// maxValues bounds the tree of one document at about 130 MiB; objects of a
// cluster have at most some ten thousand values.
const maxValues = 1 << 20

// value is one JSON value with what is inside it. Bytes point into the document.
type value struct {
	raw      []byte
	typ      rawjson.Type
	members  []member // in the document's order; of duplicates only the last
	elements []*value
	index    map[string]int // of members, for objects with many
}

type member struct {
	name string
	key  rawjson.Text
	*value
}

// absent stands for a member that is not there. Null is the same: API servers
// and typed programs write one for the other.
func (v *value) absent() bool { return v == nil || v.typ == rawjson.Null }

// is tells whether v has the type.
func (v *value) is(typ rawjson.Type) bool { return v != nil && v.typ == typ }

// get gives a member of an object; nil if there is none.
func (v *value) get(name string) *value {
	if v == nil {
		return nil
	}
	if i := v.find(name); i >= 0 {
		return v.members[i].value
	}
	return nil
}

func (v *value) find(name string) int {
	if v.index != nil {
		if i, ok := v.index[name]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(v.members, func(m member) bool { return m.name == name })
}

// text gives a string member, "" if there is none.
func (v *value) text(name string) string {
	m := v.get(name)
	if !m.is(rawjson.String) {
		return ""
	}
	return rawjson.Text(m.raw).String()
}

// reader makes the tree of a document.
type reader struct {
	cursor rawjson.Cursor
	doc    []byte
	count  int
}

// read makes the tree of an object. Errors wrap synchronizer.ErrInvalid or
// ErrTooLarge and quote nothing of it.
func read(doc []byte) (*value, error) {
	r := reader{cursor: rawjson.NewCursor(doc), doc: doc}
	v, err := r.value()
	if err == nil {
		err = r.cursor.End()
	}
	if err != nil {
		return nil, err
	}
	if v.typ != rawjson.Object {
		return nil, fmt.Errorf("%w: it is not a JSON object", synchronizer.ErrInvalid)
	}
	return v, nil
}

func (r *reader) value() (*value, error) {
	if r.count++; r.count > maxValues {
		return nil, fmt.Errorf("%w: it has more than %d values", synchronizer.ErrTooLarge, maxValues)
	}
	v := &value{typ: r.cursor.Type()}
	start := r.cursor.Offset()
	var err error
	switch v.typ {
	case rawjson.Object:
		err = r.members(v)
	case rawjson.Array:
		err = r.elements(v)
	default:
		_, err = r.cursor.Skip()
	}
	if err != nil {
		return nil, err
	}
	end := r.cursor.Offset()
	v.raw = r.doc[start:end:end]
	return v, nil
}

func (r *reader) members(v *value) error {
	const indexed = 16
	if err := r.cursor.Enter(); err != nil {
		return err
	}
	for {
		key, ok, err := r.cursor.Member()
		if !ok || err != nil {
			return err
		}
		inner, err := r.value()
		if err != nil {
			return err
		}
		m := member{name: key.String(), key: key, value: inner}
		if i := v.find(m.name); i >= 0 {
			v.members[i] = m
			continue
		}
		if v.index != nil {
			v.index[m.name] = len(v.members)
		}
		v.members = append(v.members, m)
		if len(v.members) == indexed {
			v.index = make(map[string]int, 2*indexed)
			for i := range v.members {
				v.index[v.members[i].name] = i
			}
		}
	}
}

func (r *reader) elements(v *value) error {
	if err := r.cursor.Enter(); err != nil {
		return err
	}
	for {
		if ok, err := r.cursor.Element(); !ok || err != nil {
			return err
		}
		inner, err := r.value()
		if err != nil {
			return err
		}
		v.elements = append(v.elements, inner)
	}
}

// equal tells whether two values say the same: strings as they read, numbers
// digit by digit, arrays in order, objects in any order. Absent and null are equal.
func equal(a, b *value) bool {
	switch {
	case a.absent() || b.absent():
		return a.absent() && b.absent()
	case a.typ != b.typ:
		return false
	case bytes.Equal(a.raw, b.raw):
		return true
	}
	switch a.typ {
	case rawjson.String:
		return rawjson.Text(a.raw).String() == rawjson.Text(b.raw).String()
	case rawjson.Object:
		for i := range a.members {
			if !equal(a.members[i].value, b.get(a.members[i].name)) {
				return false
			}
		}
		for i := range b.members {
			if !b.members[i].absent() && a.get(b.members[i].name).absent() {
				return false
			}
		}
		return true
	case rawjson.Array:
		if len(a.elements) != len(b.elements) {
			return false
		}
		for i := range a.elements {
			if !equal(a.elements[i], b.elements[i]) {
				return false
			}
		}
		return true
	default:
		return false
	}
}
