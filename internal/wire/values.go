// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"math/bits"
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
// checked: every few bytes there is an escaped quote, and hardly anything else. Eight
// bytes are copied at once, whole, and those behind the next backslash again; dst
// has room for all of inner, which the last eight may take. Of all that a relay
// does to a message only the copies of the broker cost more.
func unquote(dst, inner []byte) ([]byte, error) {
	if !utf8.Valid(inner) || cap(dst)-len(dst) < len(inner) {
		return rawjson.AppendUnquote(dst, quoted(inner))
	}
	out, n := dst[:cap(dst)], len(dst)
	for i := 0; i < len(inner); {
		if i+8 <= len(inner) && n+8 <= len(out) {
			w := binary.LittleEndian.Uint64(inner[i:])
			binary.LittleEndian.PutUint64(out[n:], w)
			slash := w ^ ones*'\\'
			marks := (slash - ones) &^ slash & highs // the lowest is exact
			if marks == 0 {
				i, n = i+8, n+8
				continue
			}
			plain := bits.TrailingZeros64(marks) / 8
			i, n = i+plain, n+plain
		} else if inner[i] != '\\' {
			out[n] = inner[i]
			i, n = i+1, n+1
			continue
		}
		if i+1 < len(inner) {
			if c := inner[i+1]; c == '"' || c == '\\' || c == '/' {
				out[n] = c
				i, n = i+2, n+1
				continue
			}
		}
		length := escapes(inner[i:])
		decoded, err := rawjson.AppendUnquote(out[:n], quoted(inner[i:i+length]))
		if err != nil {
			return out[:n], err
		}
		i, n = i+length, len(decoded) // in place: no escape is shorter than what it says
	}
	return out[:n], nil
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

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
