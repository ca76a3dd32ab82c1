// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"fmt"

	"synchronizer/internal/rawjson"
)

// maxApplyNodes bounds the index of one document at 96 MiB; an object within
// the limits of the link that has more values is made of little else than
// punctuation.
const maxApplyNodes = 1 << 22

// ApplyV1 gives base with the merge patch applied as clients on link v1 mean it:
// RFC 7386, and null members of objects inside arrays of the patch are dropped
// as well (null elements stay). Base and patch are whole documents; neither is
// changed. A base that is not an object counts as empty, as the RFC says. Of
// duplicate members in changed objects the last one is kept.
//
// Integers above 2^53 in such a patch arrive rounded; the caller verifies the
// checksum and knows that it is blind to that.
//
// Errors wrap synchronizer.ErrInvalid, or ErrTooLarge for a document of more
// than four million values.
func ApplyV1(base, patch []byte) ([]byte, error) {
	w := workspaces.Get().(*workspace)
	defer w.release()
	if err := w.base.read(base, maxApplyNodes); err != nil {
		return nil, fmt.Errorf("reading patch base: %w", err)
	}
	if err := w.other.read(patch, maxApplyNodes); err != nil {
		return nil, fmt.Errorf("reading patch: %w", err)
	}
	w.dst = make([]byte, 0, len(base)+len(patch))
	if w.base.isObject(0) && w.other.isObject(0) {
		w.merge(0, 0)
	} else {
		w.appendWithoutNulls(0)
	}
	return w.dst, nil
}

// merge appends the object b of the base, patched with the object p of the patch.
func (w *workspace) merge(b, p uint32) {
	w.match(b, p)
	base, patch := w.base.nodes, w.other.nodes
	w.dst = append(w.dst, '{')
	for m := b + 1; m < base[b].next; m = base[m].next {
		switch at := base[m].match; {
		case at == superseded:
		case at == unmatched:
			w.appendKey(w.base.key(m))
			w.dst = append(w.dst, w.base.bytes(m)...)
		case w.other.first(at) == 'n':
		default:
			w.appendKey(w.base.key(m))
			if w.base.isObject(m) && w.other.isObject(at) {
				w.merge(m, at)
			} else {
				w.appendWithoutNulls(at)
			}
		}
	}
	for m := p + 1; m < patch[p].next; m = patch[m].next {
		if patch[m].match == unmatched {
			w.appendMember(m)
		}
	}
	w.dst = append(w.dst, '}')
}

// match notes in the members of both objects which ones have the same name.
func (w *workspace) match(b, p uint32) {
	from := len(w.order)
	ours, theirs := w.unique(&w.base, b), w.unique(&w.other, p)
	for len(ours) > 0 && len(theirs) > 0 {
		switch c := compareTexts(w.base.key(ours[0]), w.other.key(theirs[0])); {
		case c < 0:
			ours = ours[1:]
		case c > 0:
			theirs = theirs[1:]
		default:
			w.base.nodes[ours[0]].match, w.other.nodes[theirs[0]].match = theirs[0], ours[0]
			ours, theirs = ours[1:], theirs[1:]
		}
	}
	w.order = w.order[:from]
}

// unique is byName with only the last of duplicates; the others are marked as
// superseded.
func (w *workspace) unique(d *document, object uint32) []uint32 {
	list := w.byName(d, object)
	kept := list[:0]
	for i, m := range list {
		if i+1 < len(list) && compareTexts(d.key(m), d.key(list[i+1])) == 0 {
			d.nodes[m].match = superseded
			continue
		}
		kept = append(kept, m)
	}
	return kept
}

// appendWithoutNulls appends a value of the patch; null members of the objects
// in it are left out.
func (w *workspace) appendWithoutNulls(n uint32) {
	switch nodes := w.other.nodes; w.other.first(n) {
	case '[':
		w.dst = append(w.dst, '[')
		for m := n + 1; m < nodes[n].next; m = nodes[m].next {
			if m > n+1 {
				w.dst = append(w.dst, ',')
			}
			w.appendWithoutNulls(m)
		}
		w.dst = append(w.dst, ']')
	case '{':
		from := len(w.order)
		w.unique(&w.other, n)
		w.order = w.order[:from]
		w.dst = append(w.dst, '{')
		for m := n + 1; m < nodes[n].next; m = nodes[m].next {
			if nodes[m].match != superseded {
				w.appendMember(m)
			}
		}
		w.dst = append(w.dst, '}')
	default:
		w.dst = append(w.dst, w.other.bytes(n)...)
	}
}

// appendMember appends a member of the patch, unless it is null.
func (w *workspace) appendMember(m uint32) {
	if w.other.first(m) != 'n' {
		w.appendKey(w.other.key(m))
		w.appendWithoutNulls(m)
	}
}

// appendKey begins a member. No value ends with an opening brace, so that one
// tells that the member is the first.
func (w *workspace) appendKey(key rawjson.Text) {
	if w.dst[len(w.dst)-1] != '{' {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(append(w.dst, key...), ':')
}
