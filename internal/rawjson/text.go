// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is a JSON string as it stands in a document, with its quotes.
type Text []byte

// Equal tells whether the decoded string is s. It allocates nothing for short s.
func (t Text) Equal(s string) bool {
	if len(t) < 2 {
		return false
	}
	inner := t[1 : len(t)-1]
	// Most keys that are asked for are another one from the first byte on. An escape
	// begins with a backslash, and only bytes that are no ASCII change otherwise.
	if len(inner) > 0 && len(s) > 0 {
		if b := inner[0]; b != s[0] && b != '\\' && b < utf8.RuneSelf && s[0] < utf8.RuneSelf {
			return false
		}
	}
	if bytes.IndexByte(inner, '\\') < 0 {
		if string(inner) == s {
			return utf8.ValidString(s)
		}
		// Without escapes only invalid UTF-8 changes when it is decoded.
		if !strings.Contains(s, "\uFFFD") {
			return false
		}
	}
	var buf [64]byte
	decoded, err := AppendUnquote(buf[:0], t)
	return err == nil && string(decoded) == s
}

// EqualFold is Equal under Unicode case folding, as encoding/json matches
// member names to struct fields.
func (t Text) EqualFold(s string) bool {
	if t.Equal(s) {
		return true
	}
	var buf [64]byte
	decoded, err := AppendUnquote(buf[:0], t)
	return err == nil && strings.EqualFold(string(decoded), s)
}

// Plain tells whether decoding t changes nothing but takes off the quotes:
// it has no escapes and is valid UTF-8.
func (t Text) Plain() bool {
	// Nearly all strings of objects are short and ASCII, so look at eight bytes at
	// once, and exactly only at the others.
	i, odd := 0, uint64(0)
	for ; i+8 <= len(t); i += 8 {
		w := binary.LittleEndian.Uint64(t[i:])
		slash := w ^ (ones * '\\')
		odd |= (w | (slash-ones)&^slash) & highs
	}
	for ; i < len(t); i++ {
		if t[i] >= utf8.RuneSelf || t[i] == '\\' {
			odd = 1
		}
	}
	return len(t) >= 2 && (odd == 0 || bytes.IndexByte(t, '\\') < 0 && utf8.Valid(t))
}

// String decodes t. A malformed one gives "".
func (t Text) String() string {
	if t.Plain() {
		return string(t[1 : len(t)-1])
	}
	decoded, err := AppendUnquote(nil, t)
	if err != nil {
		return ""
	}
	return string(decoded)
}

// AppendUnquote appends what the JSON string raw says. Like encoding/json it
// writes U+FFFD for invalid UTF-8 and for an escaped surrogate without its other half.
// Raw must be one string with its quotes and nothing around it.
func AppendUnquote(dst, raw []byte) ([]byte, error) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return dst, syntaxError(0, "expected a string")
	}
	inner := raw[1 : len(raw)-1]
	for i := 0; i < len(inner); {
		next := skipPlain(inner, i)
		dst = appendValid(dst, inner[i:next])
		if next == len(inner) {
			break
		}
		if inner[next] != '\\' {
			return dst, syntaxError(next+1, "quote or control character in a string")
		}
		n := escapeLen(inner[next:])
		if n == 0 {
			return dst, syntaxError(next+1, "bad escape")
		}
		dst, n = appendEscape(dst, inner[next:], n)
		i = next + n
	}
	return dst, nil
}

// appendEscape decodes the escape of length n at the start of b, and a second
// one if both make a surrogate pair; it gives the length of what it read.
func appendEscape(dst, b []byte, n int) ([]byte, int) {
	switch b[1] {
	case 'b':
		return append(dst, '\b'), n
	case 'f':
		return append(dst, '\f'), n
	case 'n':
		return append(dst, '\n'), n
	case 'r':
		return append(dst, '\r'), n
	case 't':
		return append(dst, '\t'), n
	case 'u':
	default:
		return append(dst, b[1]), n
	}
	r, _ := hex4(b)
	if utf16.IsSurrogate(r) {
		low, _ := hex4(b[n:])
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			n += 6
		}
	}
	return utf8.AppendRune(dst, r), n
}

// hex4 reads \uXXXX at the start of b.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func appendValid(dst, b []byte) []byte {
	if utf8.Valid(b) {
		return append(dst, b...)
	}
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		dst = utf8.AppendRune(dst, r)
		b = b[n:]
	}
	return dst
}

// escaped marks the ASCII characters that encoding/json escapes by default.
var escaped = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	for _, c := range `"\<>&` {
		t[c] = true
	}
	return t
}()

// AppendQuote appends text as a JSON string with the bytes that encoding/json
// writes by default: <, >, &, U+2028 and U+2029 are escaped, and invalid UTF-8
// becomes \ufffd.
func AppendQuote(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if !escaped[c] {
				i++
				continue
			}
			dst = append(dst, text[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\b':
				dst = append(dst, '\\', 'b')
			case '\f':
				dst = append(dst, '\\', 'f')
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, text[start:i]...)
			dst = append(dst, `\ufffd`...)
		case r == '\u2028' || r == '\u2029':
			dst = append(dst, text[start:i]...)
			dst = append(dst, '\\', 'u', '2', '0', '2', hex[r&15])
		default:
			i += n
			continue
		}
		i += n
		start = i
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}
