// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"encoding/binary"
	"math/bits"
)

// Check is nil if doc is exactly one JSON value, with white space around it.
func Check(doc []byte) error {
	c := NewCursor(doc)
	if _, err := c.Skip(); err != nil {
		return err
	}
	return c.End()
}

// Valid tells whether Check finds nothing.
func Valid(doc []byte) bool { return Check(doc) == nil }

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// scanValue gives the end of the value at i. Depth is that of its surroundings.
func scanValue(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return i, syntaxError(i, "expected a value")
	}
	switch b[i] {
	case '"':
		return scanString(b, i)
	case '{', '[':
		return scanContainer(b, i, depth)
	case 't':
		return scanWord(b, i, "true")
	case 'f':
		return scanWord(b, i, "false")
	case 'n':
		return scanWord(b, i, "null")
	default:
		return scanNumber(b, i)
	}
}

func scanContainer(b []byte, i, depth int) (int, error) {
	c := Cursor{doc: b, pos: i, depth: depth}
	object := b[i] == '{'
	if err := c.Enter(); err != nil {
		return c.pos, err
	}
	for {
		var ok bool
		var err error
		if object {
			_, ok, err = c.Member()
		} else {
			ok, err = c.Element()
		}
		if !ok || err != nil {
			return c.pos, err
		}
		if c.pos, err = scanValue(b, c.pos, c.depth); err != nil {
			return c.pos, err
		}
	}
}

func scanWord(b []byte, i int, word string) (int, error) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return i, syntaxError(i, "expected a value")
	}
	return i + len(word), nil
}

func scanNumber(b []byte, i int) (int, error) {
	if i < len(b) && b[i] == '-' {
		i++
	}
	start := i
	if i = skipDigits(b, i); i == start {
		return i, syntaxError(i, "expected a value")
	}
	if b[start] == '0' && i > start+1 {
		return start, syntaxError(start, "leading zero in a number")
	}
	if i < len(b) && b[i] == '.' {
		start = i + 1
		if i = skipDigits(b, start); i == start {
			return i, syntaxError(i, "expected a digit")
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		start = i
		if i = skipDigits(b, start); i == start {
			return i, syntaxError(i, "expected a digit")
		}
	}
	return i, nil
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

// scanString gives the end of the string whose opening quote is at i. A string
// that holds JSON has an escaped quote every few bytes, so those cost no call.
func scanString(b []byte, i int) (int, error) {
	i++
	for {
		for i+8 <= len(b) { // as skipPlain
			w := binary.LittleEndian.Uint64(b[i:])
			quote, slash := w^(ones*'"'), w^(ones*'\\')
			marks := ((w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
			if marks == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(marks) / 8
			if b[i] != '\\' || i+1 >= len(b) || b[i+1] != '"' && b[i+1] != '\\' {
				break
			}
			i += 2
		}
		if i = skipPlain(b, i); i >= len(b) {
			return i, syntaxError(i, "string does not end")
		}
		switch b[i] {
		case '"':
			return i + 1, nil
		case '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				return i, syntaxError(i, "bad escape")
			}
			i += n
		default:
			return i, syntaxError(i, "control character in a string")
		}
	}
}

// escapeLen is the length of the escape sequence that b begins with, or 0.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b); ok {
			return 6
		}
	}
	return 0
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipPlain gives the next position of a quote, a backslash or a control
// character. It looks at eight bytes at once: in each byte that is zero after
// the XOR, or below 0x20, the subtraction borrows into the high bit. Borrows
// reach only higher bytes, so the lowest mark is exact.
func skipPlain(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		marks := ((w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
		if marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
	}
	for i < len(b) && b[i] >= 0x20 && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}
