// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"synchronizer/internal/rawjson"
)

// The values of members. Raw is nil where a member is missing or null, and has
// no white space around it.

func text(name string, raw []byte) (string, error) {
	if raw == nil {
		return "", nil
	}
	if raw[0] != '"' {
		return "", fmt.Errorf("%s is not a string", name)
	}
	return rawjson.Text(raw).String(), nil
}

// body decodes a string into memory of its own. Escapes only shrink, so one
// allocation is enough, and it is never larger than the frame.
func body(name string, raw []byte) ([]byte, error) {
	if raw == nil || len(raw) == 2 && raw[0] == '"' {
		return nil, nil
	}
	if raw[0] != '"' {
		return nil, fmt.Errorf("%s is not a string", name)
	}
	return unquote(make([]byte, 0, len(raw)-2), raw[1:len(raw)-1])
}

// unquote is rawjson.AppendUnquote for JSON inside of a string that was already
// checked: every few bytes there is an escaped quote, and hardly anything else.
func unquote(dst, inner []byte) ([]byte, error) {
	if !utf8.Valid(inner) {
		return rawjson.AppendUnquote(dst, quoted(inner))
	}
	for {
		// Runs are short, so a plain loop beats a search.
		i := 0
		for i < len(inner) && inner[i] != '\\' {
			i++
		}
		dst = append(dst, inner[:i]...)
		if i+1 >= len(inner) {
			return dst, nil
		}
		switch c := inner[i+1]; c {
		case '"', '\\', '/':
			dst = append(dst, c)
			inner = inner[i+2:]
		default:
			n := escapes(inner[i:])
			var err error
			if dst, err = rawjson.AppendUnquote(dst, quoted(inner[i:i+n])); err != nil {
				return dst, err
			}
			inner = inner[i+n:]
		}
	}
}

// escapes is the length of the escapes at the start of b, which must not be
// taken apart: two of them may be one character.
func escapes(b []byte) int {
	n := 0
	for n+1 < len(b) && b[n] == '\\' {
		if b[n+1] == 'u' {
			n += 6
		} else {
			n += 2
		}
	}
	return min(n, len(b))
}

func quoted(inner []byte) []byte {
	return append(append(append(make([]byte, 0, len(inner)+2), '"'), inner...), '"')
}

func integer(name string, raw []byte) (int64, error) {
	if raw == nil {
		return 0, nil
	}
	if len(raw) == 1 && '0' <= raw[0] && raw[0] <= '9' {
		return int64(raw[0] - '0'), nil
	}
	if len(raw) > 20 { // also keeps a hostile number out of the error's text
		return 0, fmt.Errorf("%s is not an integer of 64 bits", name)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not an integer of 64 bits", name)
	}
	return n, nil
}
