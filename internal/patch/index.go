// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sync"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// node is one value of a document. The values inside it follow it in the index.
type node struct {
	key, keyEnd uint32 // the name with its quotes, if it is a member of an object
	start, end  uint32
	next        uint32 // index of the first node that is not inside
	match       uint32 // of a merge: the node of the other document, or one of the values below
}

// Values of node.match. The root is never a member, so 0 is free.
const (
	unmatched  = 0
	superseded = ^uint32(0) // a later member has the same name
)

// maxBytes keeps offsets below 2^32.
const maxBytes = 1 << 30

// document is a document with the index of its values, in their order.
type document struct {
	raw   []byte
	nodes []node
	limit int // of nodes
}

// read indexes raw and checks it on the way. More values than limit are
// synchronizer.ErrTooLarge.
func (d *document) read(raw []byte, limit int) error {
	d.raw, d.nodes, d.limit = raw, d.nodes[:0], limit
	if len(raw) > maxBytes {
		return fmt.Errorf("indexing %d bytes: %w", len(raw), synchronizer.ErrTooLarge)
	}
	c := rawjson.NewCursor(raw)
	if err := d.value(&c, 0, 0); err != nil {
		return err
	}
	return c.End()
}

func (d *document) value(c *rawjson.Cursor, key, keyEnd int) error {
	if len(d.nodes) == d.limit {
		return fmt.Errorf("indexing more than %d values: %w", d.limit, synchronizer.ErrTooLarge)
	}
	typ, at := c.Type(), len(d.nodes)
	d.nodes = append(d.nodes, node{key: uint32(key), keyEnd: uint32(keyEnd), start: uint32(c.Offset())})
	var err error
	switch typ {
	case rawjson.Object:
		err = d.members(c)
	case rawjson.Array:
		err = d.elements(c)
	default:
		_, err = c.Skip()
	}
	if err != nil {
		return err
	}
	d.nodes[at].end, d.nodes[at].next = uint32(c.Offset()), uint32(len(d.nodes))
	return nil
}

func (d *document) members(c *rawjson.Cursor) error {
	if err := c.Enter(); err != nil {
		return err
	}
	for {
		key, ok, err := c.Member()
		if !ok || err != nil {
			return err
		}
		if err := d.value(c, c.KeyOffset(), c.KeyOffset()+len(key)); err != nil {
			return err
		}
	}
}

func (d *document) elements(c *rawjson.Cursor) error {
	if err := c.Enter(); err != nil {
		return err
	}
	for {
		if ok, err := c.Element(); !ok || err != nil {
			return err
		}
		if err := d.value(c, 0, 0); err != nil {
			return err
		}
	}
}

// first is the byte that tells the type of a value.
func (d *document) first(n uint32) byte { return d.raw[d.nodes[n].start] }

func (d *document) isObject(n uint32) bool { return d.first(n) == '{' }

// key is the name of a member with its quotes.
func (d *document) key(n uint32) rawjson.Text {
	return rawjson.Text(d.raw[d.nodes[n].key:d.nodes[n].keyEnd])
}

func (d *document) bytes(n uint32) []byte { return d.raw[d.nodes[n].start:d.nodes[n].end] }

// isMember tells members of objects from elements of arrays and the root.
func (d *document) isMember(n uint32) bool { return d.nodes[n].keyEnd > 0 }

// workspace is what one Diff or ApplyV1 works with; it is used again.
type workspace struct {
	base, other document
	order       []uint32 // stack of the lists that byName gave
	dst         []byte
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// Larger indexes are left to the garbage collector rather than kept in the pool.
const maxPooled = 1 << 15 // nodes

func (w *workspace) release() {
	w.base.raw, w.other.raw, w.dst, w.order = nil, nil, nil, w.order[:0]
	if cap(w.base.nodes)+cap(w.other.nodes)+cap(w.order) <= maxPooled {
		workspaces.Put(w)
	}
}

// byName gives the members of an object sorted by their decoded names, those of
// the same name in the order of the document. The caller cuts w.order back to
// its length before.
func (w *workspace) byName(d *document, object uint32) []uint32 {
	from := len(w.order)
	for m := object + 1; m < d.nodes[object].next; m = d.nodes[m].next {
		w.order = append(w.order, m)
	}
	list := w.order[from:]
	slices.SortFunc(list, func(a, b uint32) int {
		return cmp.Or(compareTexts(d.key(a), d.key(b)), cmp.Compare(a, b))
	})
	return list
}

// compareTexts orders strings by what they say.
func compareTexts(a, b rawjson.Text) int {
	if bytes.Equal(a, b) {
		return 0
	}
	if a.Plain() && b.Plain() {
		return bytes.Compare(a[1:len(a)-1], b[1:len(b)-1])
	}
	// The index has checked the strings, so decoding cannot fail.
	var bufA, bufB [64]byte
	textA, _ := rawjson.AppendUnquote(bufA[:0], a)
	textB, _ := rawjson.AppendUnquote(bufB[:0], b)
	return bytes.Compare(textA, textB)
}
