// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"fmt"

	"synchronizer"
)

// MaxDepth is the deepest nesting of objects and arrays that is read.
const MaxDepth = 1000

// Errors of reading; both come wrapped in a *SyntaxError and are synchronizer.ErrInvalid.
var (
	// ErrSyntax says that the bytes are not one JSON value.
	ErrSyntax = fmt.Errorf("%w JSON", synchronizer.ErrInvalid)
	// ErrDepth says that the document is nested deeper than MaxDepth.
	ErrDepth = fmt.Errorf("%w JSON nesting", synchronizer.ErrInvalid)
)

// SyntaxError says where a document is wrong.
// It never quotes the document, which may hold secrets.
type SyntaxError struct {
	Offset int    // in bytes, from the start of the bytes that were read
	Reason string // what was expected
	Err    error  // ErrSyntax or ErrDepth
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%v at byte %d: %s", e.Err, e.Offset, e.Reason)
}

// Unwrap gives ErrSyntax or ErrDepth.
func (e *SyntaxError) Unwrap() error { return e.Err }

func syntaxError(offset int, reason string) error {
	return &SyntaxError{Offset: offset, Reason: reason, Err: ErrSyntax}
}

func depthError(offset int) error {
	return &SyntaxError{Offset: offset, Reason: fmt.Sprintf("deeper than %d levels", MaxDepth), Err: ErrDepth}
}

// Type is the type of a JSON value, told from its first byte.
type Type byte

// The types of a value. Invalid stands for a missing or malformed one.
const (
	Invalid Type = iota
	Object
	Array
	String
	Number
	Bool
	Null
)

// TypeOf tells the type of raw, which may start with white space.
func TypeOf(raw []byte) Type {
	c := Cursor{doc: raw}
	return c.Type()
}

// Cursor is a position in a document. It reads forward, checks the grammar on
// its way and allocates nothing. It always stands in front of a value, or
// behind the last one of an object or array:
//
//	c := rawjson.NewCursor(doc)
//	if err := c.Enter(); err != nil { … } // in front of an object
//	for {
//		key, ok, err := c.Member()
//		if err != nil { … }
//		if !ok { break }                     // behind the closing brace
//		value, err := c.Skip()               // or Enter, and so on
//	}
//	err := c.End()
//
// After an error the cursor is of no further use.
type Cursor struct {
	doc   []byte
	pos   int
	depth int
	key   int  // offset of the last key
	first bool // nothing of the object or array just entered has been read
}

// NewCursor stands in front of the value that doc holds.
func NewCursor(doc []byte) Cursor { return Cursor{doc: doc} }

// Offset is the position in the document, in bytes. After Type, Member or
// Element it is the first byte of a value; after Skip, or when Member or
// Element said that nothing is left, the one behind it.
func (c *Cursor) Offset() int { return c.pos }

// KeyOffset is the position of the opening quote of the key that Member gave last.
func (c *Cursor) KeyOffset() int { return c.key }

// Type moves over white space and tells the type of the value there.
func (c *Cursor) Type() Type {
	c.pos = skipSpace(c.doc, c.pos)
	if c.pos >= len(c.doc) {
		return Invalid
	}
	switch b := c.doc[c.pos]; b {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	default:
		if b == '-' || '0' <= b && b <= '9' {
			return Number
		}
		return Invalid
	}
}

// Enter moves into the object or array that the cursor stands in front of.
// Read it to its end with Member or Element.
func (c *Cursor) Enter() error {
	if t := c.Type(); t != Object && t != Array {
		return syntaxError(c.pos, "expected an object or array")
	}
	if c.depth == MaxDepth {
		return depthError(c.pos)
	}
	c.depth++
	c.pos++
	c.first = true
	return nil
}

// Member moves in front of the value of the next member and gives its key;
// ok is false when the object has ended.
func (c *Cursor) Member() (key Text, ok bool, err error) {
	if ok, err = c.next('}'); !ok || err != nil {
		return nil, false, err
	}
	if c.pos >= len(c.doc) || c.doc[c.pos] != '"' {
		return nil, false, syntaxError(c.pos, "expected a member name")
	}
	c.key = c.pos
	end, err := scanString(c.doc, c.pos)
	if err != nil {
		return nil, false, err
	}
	key = Text(c.doc[c.pos:end:end])
	c.pos = end
	if c.pos < len(c.doc) && c.doc[c.pos] != ':' {
		c.pos = skipSpace(c.doc, c.pos)
	}
	if c.pos >= len(c.doc) || c.doc[c.pos] != ':' {
		return nil, false, syntaxError(c.pos, "expected a colon")
	}
	c.pos = skipSpace(c.doc, c.pos+1)
	return key, true, nil
}

// Element moves in front of the next element; false when the array has ended.
func (c *Cursor) Element() (bool, error) { return c.next(']') }

func (c *Cursor) next(closing byte) (bool, error) {
	c.pos = skipSpace(c.doc, c.pos)
	if c.pos >= len(c.doc) {
		return false, syntaxError(c.pos, "unexpected end")
	}
	first := c.first
	c.first = false
	switch {
	case c.doc[c.pos] == closing:
		c.pos++
		c.depth--
		return false, nil
	case first:
		return true, nil
	case c.doc[c.pos] != ',':
		return false, syntaxError(c.pos, "expected a comma or the end of the object or array")
	}
	c.pos = skipSpace(c.doc, c.pos+1)
	return true, nil
}

// Skip moves behind the value and gives its bytes, without white space around.
func (c *Cursor) Skip() ([]byte, error) {
	start := skipSpace(c.doc, c.pos)
	end, err := scanValue(c.doc, start, c.depth)
	if err != nil {
		return nil, err
	}
	c.pos = end
	return c.doc[start:end:end], nil
}

// End is an error unless only white space is left.
func (c *Cursor) End() error {
	if c.pos = skipSpace(c.doc, c.pos); c.pos < len(c.doc) {
		return syntaxError(c.pos, "trailing content")
	}
	return nil
}
