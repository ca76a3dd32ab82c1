// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// Annotation, if present and not empty, is the checksum v1 of its object.
const Annotation = "kubescape.io/sync-checksum"

// excluded is the path of the member that checksum v1 leaves out: each name with
// a dot before it. Arrays add nothing to a path, and a name may contain dots.
const excluded = ".status.conditions"

// ObjectV1 is the checksum v1 of an object as peers in the field know it: the
// value of Annotation, else V1.
func ObjectV1(doc []byte) (string, error) {
	// Most objects do not even contain the name.
	if bytes.Contains(doc, []byte("sync-checksum")) || bytes.Contains(doc, []byte(`\u`)) {
		raw, err := rawjson.Get(doc, "metadata", "annotations", Annotation)
		if err != nil {
			return "", fmt.Errorf("reading the checksum annotation: %w", err)
		}
		if rawjson.TypeOf(raw) == rawjson.String && len(raw) > 2 {
			return rawjson.Text(raw).String(), nil
		}
	}
	return V1(doc)
}

// V1 is checksum v1 (design 02 §2.2) of the JSON document: 64 lower-case hex
// digits. A malformed document is an error that wraps synchronizer.ErrInvalid, and
// so is a number outside the range of float64.
func V1(doc []byte) (string, error) {
	h := v1Pool.Get().(*v1Hasher)
	defer h.release()
	h.cursor = rawjson.NewCursor(doc)
	sum, err := h.value(0)
	if err == nil {
		err = h.cursor.End()
	}
	if err != nil {
		return "", fmt.Errorf("computing checksum v1: %w", err)
	}
	return hex.EncodeToString(sum[:]), nil
}

type sum = [sha256.Size]byte

// v1Entry is an element of an array (key unused) or a member of an object.
type v1Entry struct {
	key, value sum
	seq        int // place in the document, for the last of duplicates
}

// v1Hasher hashes bottom-up. The entries of all open arrays and objects lie on
// one stack.
type v1Hasher struct {
	cursor  rawjson.Cursor
	entries []v1Entry
	text    []byte
}

var v1Pool = sync.Pool{New: func() any { return new(v1Hasher) }}

// Larger buffers are left to the garbage collector rather than kept in a pool.
const maxPooled = 1 << 20

func (h *v1Hasher) release() {
	h.cursor = rawjson.Cursor{}
	h.entries, h.text = h.entries[:0], h.text[:0]
	if cap(h.text) <= maxPooled && cap(h.entries)*72 <= maxPooled {
		v1Pool.Put(h)
	}
}

var (
	sumTrue  = sha256.Sum256([]byte("true"))
	sumFalse = sha256.Sum256([]byte("false"))
	sumNull  = sha256.Sum256([]byte("null"))
)

// offPath is the progress of a path that cannot become the excluded one.
const offPath = -1

// value hashes the value in front of the cursor. Path is how many bytes of
// excluded the path to it has matched, or offPath.
func (h *v1Hasher) value(path int) (sum, error) {
	switch h.cursor.Type() {
	case rawjson.Object:
		return h.object(path)
	case rawjson.Array:
		return h.array(path)
	case rawjson.String:
		raw, err := h.cursor.Skip()
		if err != nil {
			return sum{}, err
		}
		return h.string(raw), nil
	case rawjson.Number:
		raw, err := h.cursor.Skip()
		if err != nil {
			return sum{}, err
		}
		return number(raw)
	default:
		raw, err := h.cursor.Skip()
		switch {
		case err != nil:
			return sum{}, err
		case raw[0] == 't':
			return sumTrue, nil
		case raw[0] == 'f':
			return sumFalse, nil
		default:
			return sumNull, nil
		}
	}
}

func (h *v1Hasher) string(raw rawjson.Text) sum {
	if raw.Plain() {
		return sha256.Sum256(raw[1 : len(raw)-1])
	}
	// The cursor has checked the string, so decoding cannot fail.
	h.text, _ = rawjson.AppendUnquote(h.text[:0], raw)
	return sha256.Sum256(h.text)
}

func number(raw []byte) (sum, error) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return sum{}, fmt.Errorf("%w number: outside the range of float64", synchronizer.ErrInvalid)
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], math.Float64bits(f))
	return sha256.Sum256(b[:]), nil
}

func (h *v1Hasher) array(path int) (sum, error) {
	if err := h.cursor.Enter(); err != nil {
		return sum{}, err
	}
	base := len(h.entries)
	for {
		ok, err := h.cursor.Element()
		if err != nil {
			return sum{}, err
		}
		if !ok {
			break
		}
		value, err := h.value(path)
		if err != nil {
			return sum{}, err
		}
		h.entries = append(h.entries, v1Entry{value: value})
	}
	elements := h.entries[base:]
	slices.SortFunc(elements, func(a, b v1Entry) int { return bytes.Compare(a.value[:], b.value[:]) })
	h.text = h.text[:0]
	for i := range elements {
		h.separate(i)
		h.text = hex.AppendEncode(h.text, elements[i].value[:])
	}
	h.entries = h.entries[:base]
	return sha256.Sum256(h.text), nil
}

func (h *v1Hasher) object(path int) (sum, error) {
	if err := h.cursor.Enter(); err != nil {
		return sum{}, err
	}
	base := len(h.entries)
	for {
		key, ok, err := h.cursor.Member()
		if err != nil {
			return sum{}, err
		}
		if !ok {
			break
		}
		inner := descend(path, key)
		if inner == len(excluded) {
			if _, err := h.cursor.Skip(); err != nil {
				return sum{}, err
			}
			continue
		}
		keySum := h.string(key)
		value, err := h.value(inner)
		if err != nil {
			return sum{}, err
		}
		h.entries = append(h.entries, v1Entry{key: keySum, value: value, seq: len(h.entries)})
	}
	members := h.entries[base:]
	// The order of the texts is that of the hashes: hex digits sort as bytes do.
	slices.SortFunc(members, func(a, b v1Entry) int {
		if c := bytes.Compare(a.key[:], b.key[:]); c != 0 {
			return c
		}
		return cmp.Compare(b.seq, a.seq)
	})
	h.text = h.text[:0]
	for i := range members {
		if i > 0 && members[i].key == members[i-1].key {
			continue // the last of duplicates comes first
		}
		h.separate(i)
		h.text = hex.AppendEncode(h.text, members[i].key[:])
		h.text = append(h.text, ':')
		h.text = hex.AppendEncode(h.text, members[i].value[:])
	}
	h.entries = h.entries[:base]
	return sha256.Sum256(h.text), nil
}

func (h *v1Hasher) separate(i int) {
	if i > 0 {
		h.text = append(h.text, '|')
	}
}

// descend gives the progress of path for a member of this name.
func descend(path int, key rawjson.Text) int {
	if path == offPath {
		return offPath
	}
	rest, ok := strings.CutPrefix(excluded[path:], ".")
	if !ok {
		return offPath
	}
	var name string
	if key.Plain() {
		if len(key)-2 > len(rest) || rest[:len(key)-2] != string(key[1:len(key)-1]) {
			return offPath
		}
		return path + 1 + len(key) - 2
	}
	if name = key.String(); !strings.HasPrefix(rest, name) {
		return offPath
	}
	return path + 1 + len(name)
}
