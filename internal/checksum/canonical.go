// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"bytes"
	"strconv"
)

// appendString appends valid UTF-8 as a JSON string with the escapes of RFC 8785.
func appendString(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= 0x20:
			dst = append(dst, c)
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(dst, '"')
}

// appendNumber appends the canonical text of a JSON number: its significant
// digits as an integer without zeros at either end, then e and the power of ten
// unless that is 0. So 1.0 is 1, 1000 and 1e3 are 1e3, 0.10 is 1e-1, and -0 is 0.
// Numbers of equal value give equal text, without any rounding. (One exception
// keeps this linear: a power written with more than 18 digits stays as it is
// written, which is still a text that no other value has.)
func appendNumber(dst, raw []byte) []byte {
	digits, exponent := raw, int64(0)
	negative := raw[0] == '-'
	if negative {
		digits = digits[1:]
	}
	odd := false // the exponent does not fit
	if i := bytes.IndexAny(digits, "eE"); i >= 0 {
		power := digits[i+1:]
		digits = digits[:i]
		sign := power[0] == '-'
		if sign || power[0] == '+' {
			power = power[1:]
		}
		power = bytes.TrimLeft(power, "0")
		if odd = len(power) > 18; !odd && len(power) > 0 {
			exponent, _ = strconv.ParseInt(string(power), 10, 64)
			if sign {
				exponent = -exponent
			}
		}
	}
	whole, fraction, _ := bytes.Cut(digits, []byte{'.'})
	fraction = bytes.TrimRight(fraction, "0")
	if len(fraction) == 0 {
		trimmed := bytes.TrimRight(whole, "0")
		exponent += int64(len(whole) - len(trimmed))
		whole = trimmed
	}
	exponent -= int64(len(fraction))
	if whole = bytes.TrimLeft(whole, "0"); len(whole) == 0 {
		fraction = bytes.TrimLeft(fraction, "0")
	}
	switch {
	case len(whole)+len(fraction) == 0:
		return append(dst, '0')
	case odd:
		return append(dst, raw...)
	case negative:
		dst = append(dst, '-')
	}
	dst = append(append(dst, whole...), fraction...)
	if exponent != 0 {
		dst = strconv.AppendInt(append(dst, 'e'), exponent, 10)
	}
	return dst
}
