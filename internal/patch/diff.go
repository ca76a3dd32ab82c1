// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// maxDiffNodes bounds the indexes of one Diff at 6 MiB each. Objects of a
// cluster have at most some ten thousand values.
const maxDiffNodes = 1 << 18

// Diff appends to dst the merge patch that turns base into doc for a peer on
// link v1, {} if they are equal. Values that differ are copied from doc byte by
// byte. If exact is false, dst comes back as it was and the whole object is to
// be sent, because a patch does not carry the change exactly:
//
//   - a member must become null, or an object inside an array or a new object of
//     the patch has a null member;
//   - a number in the patch does not survive a pass through float64, as integers
//     above 2^53;
//   - base or doc is not an object, or a changed object has duplicate members;
//   - base or doc has more than 262,144 values, which is not worth the memory.
//
// Two values are equal if they have the same type and the same content: strings
// as they read after decoding, arrays in order, objects by their members in
// whatever order, numbers digit by digit. (Digest v2 takes 1 and 1.0 as equal;
// here it is a change, so that doc's bytes arrive.) So ApplyV1(base, patch) has
// the value of doc, numbers to the digit, metadata.resourceVersion and all.
//
// Malformed documents are errors that wrap synchronizer.ErrInvalid.
func Diff(dst, base, doc []byte) (patch []byte, exact bool, err error) {
	w := workspaces.Get().(*workspace)
	defer w.release()
	for _, in := range []struct {
		document *document
		raw      []byte
		name     string
	}{{&w.base, base, "patch base"}, {&w.other, doc, "patched document"}} {
		err := in.document.read(in.raw, maxDiffNodes)
		if errors.Is(err, synchronizer.ErrTooLarge) {
			return dst, false, nil
		}
		if err != nil {
			return dst, false, fmt.Errorf("reading %s: %w", in.name, err)
		}
	}
	if !w.base.isObject(0) || !w.other.isObject(0) {
		return dst, false, nil
	}
	w.dst = dst
	changed, exact := w.diff(0, 0)
	switch {
	case !exact:
		return dst, false, nil
	case !changed:
		return append(w.dst, '{', '}'), true, nil
	default:
		return w.dst, true, nil
	}
}

// diff appends the patch from object b of the base to object n of the document;
// nothing if they are equal.
func (w *workspace) diff(b, n uint32) (changed, exact bool) {
	from := len(w.dst)
	w.dst = append(w.dst, '{')
	if w.sameNames(b, n) {
		exact = w.diffInOrder(b, n)
	} else {
		exact = w.diffByName(b, n)
	}
	if !exact || len(w.dst) == from+1 {
		w.dst = w.dst[:from]
		return false, exact
	}
	w.dst = append(w.dst, '}')
	return true, true
}

// sameNames tells whether two objects have the same names, spelled the same,
// in the same order. Nearly all have.
func (w *workspace) sameNames(b, n uint32) bool {
	base, doc := w.base.nodes, w.other.nodes
	endB, endN := base[b].next, doc[n].next
	b, n = b+1, n+1
	for b < endB && n < endN {
		if !bytes.Equal(w.base.key(b), w.other.key(n)) {
			return false
		}
		b, n = base[b].next, doc[n].next
	}
	return b == endB && n == endN
}

// diffInOrder is diff for objects with sameNames.
func (w *workspace) diffInOrder(b, n uint32) (exact bool) {
	from, object := len(w.dst), n
	base, doc := w.base.nodes, w.other.nodes
	end := doc[n].next
	for b, n = b+1, n+1; n < end; b, n = base[b].next, doc[n].next {
		if !w.diffMember(b, n) {
			return false
		}
	}
	if len(w.dst) == from {
		return true // equal member by member, so duplicates do not matter
	}
	start := len(w.order)
	exact = !w.duplicates(&w.other, w.byName(&w.other, object))
	w.order = w.order[:start]
	return exact
}

// diffByName is diff for any two objects.
func (w *workspace) diffByName(b, n uint32) (exact bool) {
	start := len(w.order)
	defer func() { w.order = w.order[:start] }()
	// What diffMember pushes to the stack stands above these lists, or in a copy of it.
	ours, theirs := w.byName(&w.base, b), w.byName(&w.other, n)
	if w.duplicates(&w.base, ours) || w.duplicates(&w.other, theirs) {
		return false
	}
	for len(ours) > 0 || len(theirs) > 0 {
		switch c := w.compareFirst(ours, theirs); {
		case c < 0:
			w.appendKey(w.base.key(ours[0]))
			w.dst = append(w.dst, "null"...)
			ours = ours[1:]
		case c > 0:
			if !w.appendChange(theirs[0]) {
				return false
			}
			theirs = theirs[1:]
		default:
			if !w.diffMember(ours[0], theirs[0]) {
				return false
			}
			ours, theirs = ours[1:], theirs[1:]
		}
	}
	return true
}

// compareFirst compares the first names of two sorted lists; an empty list
// comes last.
func (w *workspace) compareFirst(ours, theirs []uint32) int {
	switch {
	case len(ours) == 0:
		return 1
	case len(theirs) == 0:
		return -1
	default:
		return compareTexts(w.base.key(ours[0]), w.other.key(theirs[0]))
	}
}

func (w *workspace) duplicates(d *document, sorted []uint32) bool {
	for i := 1; i < len(sorted); i++ {
		if compareTexts(d.key(sorted[i-1]), d.key(sorted[i])) == 0 {
			return true
		}
	}
	return false
}

// diffMember appends what changes a member, if anything.
func (w *workspace) diffMember(b, n uint32) (exact bool) {
	if w.base.isObject(b) && w.other.isObject(n) {
		from := len(w.dst)
		w.appendKey(w.other.key(n))
		changed, exact := w.diff(b, n)
		if !changed {
			w.dst = w.dst[:from]
		}
		return exact
	}
	return w.equal(b, n) || w.appendChange(n)
}

// appendChange appends a member of the document as it is. It is not exact if the
// peer would drop or round something.
func (w *workspace) appendChange(n uint32) (exact bool) {
	for i := n; i < w.other.nodes[n].next; i++ {
		switch c := w.other.first(i); {
		case c == 'n' && w.other.isMember(i):
			return false
		case (c == '-' || '0' <= c && c <= '9') && !survivesFloat(w.other.bytes(i)):
			return false
		}
	}
	w.appendKey(w.other.key(n))
	w.dst = append(w.dst, w.other.bytes(n)...)
	return true
}

// equal tells whether two values are equal. Objects with duplicates count as
// different unless they are spelled the same.
func (w *workspace) equal(b, n uint32) bool {
	first := w.base.first(b)
	if first != w.other.first(n) {
		return false
	}
	switch first {
	case '"':
		return compareTexts(w.base.bytes(b), w.other.bytes(n)) == 0
	case '{':
		if !w.sameNames(b, n) {
			return w.equalByName(b, n)
		}
	case '[':
	default:
		return bytes.Equal(w.base.bytes(b), w.other.bytes(n))
	}
	base, doc := w.base.nodes, w.other.nodes
	endB, endN := base[b].next, doc[n].next
	for b, n = b+1, n+1; b < endB && n < endN; b, n = base[b].next, doc[n].next {
		if !w.equal(b, n) {
			return false
		}
	}
	return b == endB && n == endN
}

func (w *workspace) equalByName(b, n uint32) bool {
	start := len(w.order)
	defer func() { w.order = w.order[:start] }()
	ours, theirs := w.byName(&w.base, b), w.byName(&w.other, n)
	if len(ours) != len(theirs) || w.duplicates(&w.base, ours) {
		return false
	}
	for i := range ours {
		if compareTexts(w.base.key(ours[i]), w.other.key(theirs[i])) != 0 || !w.equal(ours[i], theirs[i]) {
			return false
		}
	}
	return true
}

// survivesFloat tells whether a number has the same value after a peer has read
// it as float64 and written it again: all of at most 15 digits do, if they are
// not extremely large or small, and integers up to 2^53.
func survivesFloat(raw []byte) bool {
	const longest, digitsOfPower = 32, 2
	mantissa, power := raw, []byte(nil)
	if i := bytes.IndexAny(raw, "eE"); i >= 0 {
		mantissa, power = raw[:i], bytes.TrimLeft(raw[i+1:], "+-0")
	}
	if len(mantissa) > longest || len(power) > digitsOfPower {
		return false
	}
	digits := 0
	for _, c := range mantissa {
		if '1' <= c && c <= '9' || c == '0' && digits > 0 {
			digits++
		}
	}
	if digits <= 15 {
		return true
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil && -1<<53 <= n && n <= 1<<53
}

// OnlyResourceVersion tells whether a patch changes metadata.resourceVersion and
// nothing else. Such a patch is not sent. It is false for {}.
func OnlyResourceVersion(patch []byte) bool {
	metadata := onlyMember(patch, "metadata")
	return metadata != nil && onlyMember(metadata, "resourceVersion") != nil
}

// onlyMember gives the value of the single member that an object has, if it has
// this name.
func onlyMember(object []byte, name string) []byte {
	var found []byte
	count := 0
	err := rawjson.Members(object, func(key rawjson.Text, value []byte) error {
		if count++; key.Equal(name) {
			found = value
		}
		return nil
	})
	if err != nil || count != 1 {
		return nil
	}
	return found
}
