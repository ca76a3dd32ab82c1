// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/fnv"
	"strings"
)

// longestToken bounds the part of a subject that a key takes: a protocol line of
// the broker has 4 KiB.
const longestToken = 255

const hexDigits = "0123456789ABCDEF"

// token makes any text a part of a subject, or the name of a consumer: letters,
// digits, "-" and "_" stand for themselves, every other byte is "=" and two hex
// digits. The empty text is "=". A token that would be longer than longestToken
// is "==" and the SHA-256 of the text. Different texts have different tokens.
func token(text string) string {
	if text == "" {
		return "="
	}
	length := 0
	for i := range len(text) {
		if plain(text[i]) {
			length++
		} else {
			length += 3
		}
	}
	if length > longestToken {
		return hashOf(text)
	}
	if length == len(text) {
		return text
	}
	var b strings.Builder
	b.Grow(length)
	for i := range len(text) {
		if c := text[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('=')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "==" + hex.EncodeToString(sum[:])
}

// textOf is the reverse of token; ok is false for a hashed one and for what is
// no token.
func textOf(token string) (text string, ok bool) {
	switch {
	case token == "=":
		return "", true
	case token == "" || strings.HasPrefix(token, "=="):
		return "", false
	case !strings.Contains(token, "="):
		return token, true
	}
	return unescape(token, '=')
}

// unescape replaces the mark and two hex digits by the byte they stand for; ok
// is false if digits are missing.
func unescape(s string, mark byte) (text string, ok bool) {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != mark {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		high, low := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), true
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// partition spreads keys over n partitions.
func partition(key string, n int) int {
	if n == 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum32() % uint32(n))
}
