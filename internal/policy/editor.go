// SPDX-License-Identifier: Apache-2.0

package policy

import "synchronizer/internal/rawjson"

// maskEnv is the rule for the elements of an env array.
var maskEnv = with("value", &rule{action: replace, text: mask})

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

// value edits the value in front of the cursor. Env says that it is the value of
// a member named env.
func (e *editor) value(r *rule, env bool) error {
	t := e.cursor.Type()
	switch {
	case r != nil && r.action == replace,
		r != nil && r.all != nil && t != rawjson.Object:
		return e.replace(r.text)
	case t == rawjson.Object:
		return e.object(r)
	case t == rawjson.Array:
		return e.array(env)
	default:
		_, err := e.cursor.Skip()
		return err
	}
}

// replace puts text, or null, in the place of a value that is not null.
func (e *editor) replace(text string) error {
	if text == "" {
		text = "null"
	}
	null := e.cursor.Type() == rawjson.Null
	from := e.cursor.Offset()
	raw, err := e.cursor.Skip()
	if err == nil && !null && string(raw) != text {
		e.splice(from, e.cursor.Offset(), text)
	}
	return err
}

func (e *editor) array(env bool) error {
	if err := e.cursor.Enter(); err != nil {
		return err
	}
	for {
		if ok, err := e.cursor.Element(); !ok || err != nil {
			return err
		}
		var r *rule
		if env && e.cursor.Type() == rawjson.Object {
			r = maskEnv
		}
		if err := e.value(r, false); err != nil {
			return err
		}
	}
}

func (e *editor) object(r *rule) error {
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
		if inner != nil && inner.action == remove {
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
		if err := e.value(inner, key.Equal("env")); err != nil {
			return err
		}
		end = e.cursor.Offset()
	}
}
