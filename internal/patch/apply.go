// SPDX-License-Identifier: Apache-2.0

// Package patch applies JSON merge patches (RFC 7386) to raw JSON. What a patch
// does not touch keeps its exact bytes: numbers are not re-formatted, strings
// are not re-encoded, members keep their order.
package patch

import (
	"bytes"
	"fmt"

	"synchronizer/internal/rawjson"
)

// ApplyV1 gives base with the merge patch applied as clients on link v1 mean it:
// RFC 7386, and null members of objects inside arrays of the patch are dropped
// as well (null elements stay). Base and patch are whole documents; neither is
// changed. A base that is not an object counts as empty, as the RFC says.
//
// Integers above 2^53 in such a patch arrive rounded; the caller verifies the
// checksum and knows that it is blind to that.
func ApplyV1(base, patch []byte) ([]byte, error) {
	if err := rawjson.Check(base); err != nil {
		return nil, fmt.Errorf("reading patch base: %w", err)
	}
	if err := rawjson.Check(patch); err != nil {
		return nil, fmt.Errorf("reading patch: %w", err)
	}
	return merge(make([]byte, 0, len(base)+len(patch)), base, patch)
}

// member is one member of an object; a later duplicate replaces an earlier one.
type member struct {
	key   rawjson.Text
	value []byte
}

// members reads an object's members, without duplicates, in order of first
// appearance. Anything but an object has none.
func members(doc []byte) ([]member, error) {
	if rawjson.TypeOf(doc) != rawjson.Object {
		return nil, nil
	}
	var list []member
	err := rawjson.Members(doc, func(key rawjson.Text, value []byte) error {
		if at := find(list, key); at >= 0 {
			list[at].value = value
		} else {
			list = append(list, member{key: key, value: value})
		}
		return nil
	})
	return list, err
}

// find gives the place of key in list, or -1. Keys are compared decoded.
func find(list []member, key rawjson.Text) int {
	text := ""
	for i := range list {
		if bytes.Equal(list[i].key, key) {
			return i
		}
		if list[i].key.Plain() && key.Plain() {
			continue
		}
		if text == "" {
			text = key.String()
		}
		if list[i].key.Equal(text) {
			return i
		}
	}
	return -1
}

// merge appends the result of patching base to dst.
func merge(dst, base, patch []byte) ([]byte, error) {
	if rawjson.TypeOf(patch) != rawjson.Object {
		return appendWithoutNulls(dst, patch)
	}
	old, err := members(base)
	if err != nil {
		return nil, err
	}
	changes, err := members(patch)
	if err != nil {
		return nil, err
	}
	used := make([]bool, len(changes))
	w := objectWriter{dst: append(dst, '{')}
	for _, m := range old {
		at := find(changes, m.key)
		switch {
		case at < 0:
			w.key(m.key)
			w.dst = append(w.dst, bytes.TrimSpace(m.value)...)
			continue
		case rawjson.TypeOf(changes[at].value) != rawjson.Null:
			w.key(m.key)
			if w.dst, err = merge(w.dst, m.value, changes[at].value); err != nil {
				return nil, err
			}
		}
		used[at] = true
	}
	for i, c := range changes {
		if used[i] || rawjson.TypeOf(c.value) == rawjson.Null {
			continue
		}
		w.key(c.key)
		if w.dst, err = merge(w.dst, nil, c.value); err != nil {
			return nil, err
		}
	}
	return append(w.dst, '}'), nil
}

// appendWithoutNulls appends an array or a scalar of a patch; null members of
// objects inside arrays are left out.
func appendWithoutNulls(dst, doc []byte) ([]byte, error) {
	switch rawjson.TypeOf(doc) {
	case rawjson.Array:
		dst = append(dst, '[')
		first := true
		err := rawjson.Elements(doc, func(value []byte) (err error) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst, err = appendWithoutNulls(dst, value)
			return err
		})
		return append(dst, ']'), err
	case rawjson.Object:
		list, err := members(doc)
		if err != nil {
			return nil, err
		}
		w := objectWriter{dst: append(dst, '{')}
		for _, m := range list {
			if rawjson.TypeOf(m.value) == rawjson.Null {
				continue
			}
			w.key(m.key)
			if w.dst, err = appendWithoutNulls(w.dst, m.value); err != nil {
				return nil, err
			}
		}
		return append(w.dst, '}'), nil
	default:
		return append(dst, bytes.TrimSpace(doc)...), nil
	}
}

// objectWriter puts commas between members.
type objectWriter struct {
	dst   []byte
	wrote bool
}

func (w *objectWriter) key(k rawjson.Text) {
	if w.wrote {
		w.dst = append(w.dst, ',')
	}
	w.wrote = true
	w.dst = append(append(w.dst, k...), ':')
}
