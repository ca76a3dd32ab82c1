// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
	"sync"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// V2 is digest v2 of a JSON document: SHA-256, cut to 128 bits, of a canonical
// form in the style of RFC 8785:
//
//   - no white space; members sorted by the UTF-8 bytes of their decoded names
//     (RFC 8785 sorts by UTF-16 units, which differs for names outside the BMP
//     only), the last of duplicates; arrays in order;
//   - strings as UTF-8 with the escapes \" \\ \b \f \n \r \t, and \u00xx in lower
//     case for other control characters;
//   - numbers by their exact decimal value, see appendNumber: 1, 1.0 and 10e-1 are
//     equal, 9007199254740993 and 9007199254740992 are not;
//   - without the members metadata.resourceVersion and metadata.managedFields.
//
// A malformed document is an error that wraps synchronizer.ErrInvalid.
func V2(doc []byte) (Digest, error) {
	if len(doc) > maxV2 {
		return Digest{}, fmt.Errorf("computing digest v2 of %d bytes: %w", len(doc), synchronizer.ErrTooLarge)
	}
	d := v2Pool.Get().(*canonicalizer)
	defer d.release()
	d.doc, d.cursor = doc, rawjson.NewCursor(doc)
	start, err := d.index(root)
	if err == nil {
		err = d.cursor.End()
	}
	if err != nil {
		return Digest{}, fmt.Errorf("computing digest v2: %w", err)
	}
	d.write(start, 0)
	return d.finish(), nil
}

// maxV2 keeps every offset, also those of decoded names, below 2^32.
const maxV2 = 1 << 30

// canonicalizer works in two passes, both linear but for sorting. The first
// notes where objects and their members lie, the second writes them in order.
// Scalars and arrays are not noted, so a document cannot make it use more than
// about ten times its own size.
type canonicalizer struct {
	doc     []byte
	cursor  rawjson.Cursor
	objects []objectEntry // in the order of their opening braces
	members []memberEntry // those of one object lie together, sorted
	open    []memberEntry // of the objects that are being read
	names   []byte        // decoded names that are not plain in the document
	text    []byte        // a decoded string
	out     []byte
	hash    hash.Hash
}

type objectEntry struct {
	first, count uint32 // its members
	end          uint32 // offset behind the closing brace
	next         uint32 // index of the first object behind it
}

type memberEntry struct {
	name, nameEnd uint32 // without quotes
	value         uint32 // offset
	object        uint32 // index of the first object at or behind the value
	decoded       bool   // name lies in names, not in the document
}

var v2Pool = sync.Pool{New: func() any { return &canonicalizer{hash: sha256.New()} }}

// The canonical form is hashed in pieces of about this size.
const flushSize = 16 << 10

func (d *canonicalizer) release() {
	d.doc, d.cursor = nil, rawjson.Cursor{}
	d.objects, d.members, d.open = d.objects[:0], d.members[:0], d.open[:0]
	d.names, d.text, d.out = d.names[:0], d.text[:0], d.out[:0]
	d.hash.Reset()
	if 20*cap(d.members)+20*cap(d.open)+16*cap(d.objects)+cap(d.names)+cap(d.text)+cap(d.out) <= maxPooled {
		v2Pool.Put(d)
	}
}

// place tells which members are left out of an object.
type place byte

const (
	elsewhere place = iota
	root
	metadata
)

// index notes the objects of the value in front of the cursor and gives the
// offset of its first byte.
func (d *canonicalizer) index(at place) (uint32, error) {
	switch d.cursor.Type() {
	case rawjson.Object:
		start := uint32(d.cursor.Offset())
		return start, d.indexObject(at)
	case rawjson.Array:
		start := uint32(d.cursor.Offset())
		if err := d.cursor.Enter(); err != nil {
			return 0, err
		}
		for {
			ok, err := d.cursor.Element()
			if !ok || err != nil {
				return start, err
			}
			if _, err := d.index(elsewhere); err != nil {
				return 0, err
			}
		}
	default:
		start := uint32(d.cursor.Offset())
		_, err := d.cursor.Skip()
		return start, err
	}
}

func (d *canonicalizer) indexObject(at place) error {
	if err := d.cursor.Enter(); err != nil {
		return err
	}
	self, base, sorted := len(d.objects), len(d.open), true
	d.objects = append(d.objects, objectEntry{})
	for {
		key, ok, err := d.cursor.Member()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		inner := elsewhere
		switch at {
		case root:
			if key.Equal("metadata") {
				inner = metadata
			}
		case metadata:
			if key.Equal("resourceVersion") || key.Equal("managedFields") {
				if _, err := d.cursor.Skip(); err != nil {
					return err
				}
				continue
			}
		}
		m := memberEntry{object: uint32(len(d.objects))}
		if key.Plain() {
			m.name = uint32(d.cursor.KeyOffset() + 1)
			m.nameEnd = m.name + uint32(len(key)-2)
		} else {
			m.name, m.decoded = uint32(len(d.names)), true
			d.names, _ = rawjson.AppendUnquote(d.names, key) // the cursor has checked it
			m.nameEnd = uint32(len(d.names))
		}
		if m.value, err = d.index(inner); err != nil {
			return err
		}
		if sorted && len(d.open) > base {
			sorted = bytes.Compare(d.name(&d.open[len(d.open)-1]), d.name(&m)) < 0
		}
		d.open = append(d.open, m)
	}
	own := d.open[base:]
	if !sorted {
		own = d.sort(own)
	}
	d.objects[self] = objectEntry{
		first: uint32(len(d.members)), count: uint32(len(own)),
		end: uint32(d.cursor.Offset()), next: uint32(len(d.objects)),
	}
	d.members = append(d.members, own...)
	d.open = d.open[:base]
	return nil
}

func (d *canonicalizer) name(m *memberEntry) []byte {
	if m.decoded {
		return d.names[m.name:m.nameEnd]
	}
	return d.doc[m.name:m.nameEnd]
}

// sort orders members by name and leaves only the last of duplicates.
func (d *canonicalizer) sort(members []memberEntry) []memberEntry {
	duplicates := false
	compare := func(a, b *memberEntry) int {
		c := bytes.Compare(d.name(a), d.name(b))
		if c == 0 && a != b {
			duplicates = true
			c = cmp.Compare(b.value, a.value)
		}
		return c
	}
	if len(members) > 16 {
		slices.SortFunc(members, func(a, b memberEntry) int { return compare(&a, &b) })
	} else { // most objects are small and nearly in order
		for i := 1; i < len(members); i++ {
			m, j := members[i], i
			for ; j > 0 && compare(&m, &members[j-1]) < 0; j-- {
				members[j] = members[j-1]
			}
			members[j] = m
		}
	}
	if !duplicates {
		return members
	}
	return slices.CompactFunc(members, func(a, b memberEntry) bool {
		return bytes.Equal(d.name(&a), d.name(&b))
	})
}

// write appends the canonical form of the value at pos. Object is the index of
// the first object at or behind pos. It gives the offset behind the value and
// the index of the first object there. The document has been checked by index.
func (d *canonicalizer) write(pos, object uint32) (uint32, uint32) {
	if len(d.out) >= flushSize {
		d.hash.Write(d.out)
		d.out = d.out[:0]
	}
	switch d.doc[pos] {
	case '{':
		o := d.objects[object]
		d.out = append(d.out, '{')
		for i, m := range d.members[o.first : o.first+o.count] {
			if i > 0 {
				d.out = append(d.out, ',')
			}
			if m.decoded {
				d.out = appendString(d.out, d.names[m.name:m.nameEnd])
			} else {
				d.out = append(d.out, d.doc[m.name-1:m.nameEnd+1]...)
			}
			d.out = append(d.out, ':')
			d.write(m.value, m.object)
		}
		d.out = append(d.out, '}')
		return o.end, o.next
	case '[':
		d.out = append(d.out, '[')
		for first := true; ; first = false {
			// Between elements stand only white space and commas.
			for pos++; isBetween(d.doc[pos]); pos++ {
			}
			if d.doc[pos] == ']' {
				d.out = append(d.out, ']')
				return pos + 1, object
			}
			if !first {
				d.out = append(d.out, ',')
			}
			pos, object = d.write(pos, object)
			pos-- // the loop moves on first
		}
	default:
		c := rawjson.NewCursor(d.doc[pos:])
		raw, _ := c.Skip()
		d.scalar(raw)
		return pos + uint32(len(raw)), object
	}
}

func isBetween(c byte) bool {
	return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

func (d *canonicalizer) scalar(raw []byte) {
	switch c := raw[0]; {
	case c == '"':
		if rawjson.Text(raw).Plain() {
			d.out = append(d.out, raw...)
			return
		}
		d.text, _ = rawjson.AppendUnquote(d.text[:0], raw)
		d.out = appendString(d.out, d.text)
	case c == '-' || '0' <= c && c <= '9':
		d.out = appendNumber(d.out, raw)
	default:
		d.out = append(d.out, raw...)
	}
}

func (d *canonicalizer) finish() Digest {
	d.hash.Write(d.out)
	d.out = d.hash.Sum(d.out[:0])
	return Digest(d.out[:16])
}
