// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"synchronizer/internal/rawjson"
)

// place is where a value stands, as far as the rule for environment values asks.
type place uint8

const (
	elsewhere   place = iota
	environment       // the value of a member named env
	variable          // an element of such an array
)

// editor copies a document and leaves out or replaces parts of it, in one pass.
type editor struct {
	doc    []byte
	cursor rawjson.Cursor
	out    []byte
	copied int // doc up to here is in out, as edited
	edited bool
}

// splice puts text in the place of doc[from:to]. Places come in order.
func (e *editor) splice(from, to int, text string) {
	e.out = append(e.out, e.doc[e.copied:from]...)
	e.out = append(e.out, text...)
	e.copied, e.edited = to, true
}

func (e *editor) finish() []byte {
	if !e.edited {
		return e.doc
	}
	return append(e.out, e.doc[e.copied:]...)
}

// value edits the value in front of the cursor.
func (e *editor) value(r *rule, at place) error {
	t := e.cursor.Type()
	if r != nil {
		switch {
		case r.action == replace:
			return e.replace(r.text)
		case r.action == hash:
			return e.hash(r)
		case r.strict && t != rawjson.Object, !r.fits(t):
			return e.replace("null")
		}
	}
	switch t {
	case rawjson.Object:
		return e.object(r, at)
	case rawjson.Array:
		return e.array(r, at)
	default:
		_, err := e.cursor.Skip()
		return err
	}
}

// replace puts text in the place of a value that is not null.
func (e *editor) replace(text string) error {
	null := e.cursor.Type() == rawjson.Null
	from := e.cursor.Offset()
	raw, err := e.cursor.Skip()
	if err == nil && !null && string(raw) != text {
		e.splice(from, e.cursor.Offset(), text)
	}
	return err
}

// hash puts the hash of a value that is not null in its place. Of a string it is that
// of the text, so that the way in which it is escaped does not matter.
func (e *editor) hash(r *rule) error {
	t := e.cursor.Type()
	from := e.cursor.Offset()
	raw, err := e.cursor.Skip()
	if err != nil || t == rawjson.Null {
		return err
	}
	if t == rawjson.String {
		if raw, err = rawjson.AppendUnquote(nil, raw); err != nil {
			return err
		}
	}
	mac := hmac.New(sha256.New, r.salt)
	mac.Write(raw)
	text := "sha256:" + hex.EncodeToString(mac.Sum(nil))
	if r.base64 {
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	e.splice(from, e.cursor.Offset(), `"`+text+`"`)
	return nil
}

func (e *editor) array(r *rule, at place) error {
	if err := e.cursor.Enter(); err != nil {
		return err
	}
	var inner *rule
	if r != nil {
		inner = r.elements
	}
	if inner != nil && inner.action == remove {
		return e.removeElements()
	}
	if at == environment {
		at = variable
	} else {
		at = elsewhere
	}
	for {
		if ok, err := e.cursor.Element(); !ok || err != nil {
			return err
		}
		if err := e.value(inner, at); err != nil {
			return err
		}
	}
}

func (e *editor) removeElements() error {
	from := e.cursor.Offset()
	for some := false; ; some = true {
		ok, err := e.cursor.Element()
		if err != nil {
			return err
		}
		if !ok {
			if some {
				e.splice(from, e.cursor.Offset()-1, "")
			}
			return nil
		}
		if _, err := e.cursor.Skip(); err != nil {
			return err
		}
	}
}

func (e *editor) object(r *rule, at place) error {
	if err := e.cursor.Enter(); err != nil {
		return err
	}
	// A removed member takes the comma before it along. If nothing stands before
	// it, everything from the brace up to the next member that stays is removed.
	end, kept, leading := e.cursor.Offset(), false, false
	for {
		key, ok, err := e.cursor.Member()
		if err != nil {
			return err
		}
		if !ok {
			if leading {
				e.splice(e.copied, end, "")
			}
			return nil
		}
		inner := r.member(key)
		if inner != nil && inner.removes(e.cursor.Type()) {
			if _, err := e.cursor.Skip(); err != nil {
				return err
			}
			switch {
			case kept:
				e.splice(end, e.cursor.Offset(), "")
			case !leading:
				leading = true
				e.splice(end, end, "")
			}
			end = e.cursor.Offset()
			continue
		}
		if leading {
			e.splice(e.copied, e.cursor.KeyOffset(), "")
			leading = false
		}
		kept = true
		if err := e.member(key, inner, at); err != nil {
			return err
		}
		end = e.cursor.Offset()
	}
}

// member edits the value of a member that stays; at is the place of the object.
func (e *editor) member(key rawjson.Text, r *rule, at place) error {
	if at == variable && (r == nil || r.action == inside && !r.reveal) && key.Equal("value") {
		r = maskValue
	}
	if key.Equal("env") {
		return e.value(r, environment)
	}
	return e.value(r, elsewhere)
}
