// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"fmt"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"synchronizer"
)

// Properties travel as message headers under their own names, so that other
// NATS clients can read them. What a header cannot carry is escaped with "%" and
// two hex digits: in names always, in values only if the record has a value that
// needs it, which headerEscaped says.
const (
	headerEscaped = "Synchronizer-Escaped"
	headerKey     = "Synchronizer-Key" // the key, if its token is a hash

	// largestHeader is the broker's limit.
	largestHeader = 1<<16 - 1
	headerFrame   = len("NATS/1.0\r\n") + len("\r\n")
	lineFrame     = len(": ") + len("\r\n")
)

// headers builds the headers of one record after the other in the same memory:
// nats.go has written them when it returns from PublishMsg.
type headers struct {
	header natsgo.Header
	values []string
}

// of returns the headers of r and the bytes they take on the wire. They are
// valid until the next call.
func (h *headers) of(r *synchronizer.Record, hashed bool) (natsgo.Header, int) {
	if h.header == nil {
		h.header = make(natsgo.Header, len(r.Properties)+2)
	}
	clear(h.header)
	h.values = h.values[:0]
	// Grown beforehand: the header holds slices of it.
	if need := len(r.Properties) + 2; cap(h.values) < need {
		h.values = make([]string, 0, need)
	}
	size := headerFrame
	set := func(name, value string) {
		h.values = append(h.values, value)
		last := len(h.values)
		h.header[name] = h.values[last-1 : last : last]
		size += len(name) + len(value) + lineFrame
	}

	escaped := hashed && !safeValue(r.Key)
	for i := range r.Properties {
		escaped = escaped || !safeValue(r.Properties[i].Value)
	}
	value := func(s string) string {
		if escaped {
			return escape(s, func(c byte) bool { return c > ' ' && c < 0x7f && c != '%' })
		}
		return s
	}
	if escaped {
		set(headerEscaped, "1")
	}
	if hashed {
		set(headerKey, value(r.Key))
	}
	for i := range r.Properties {
		set(escapeName(r.Properties[i].Name), value(r.Properties[i].Value))
	}
	return h.header, size
}

// properties is the reverse of headers.of; headers of the broker are left out.
func properties(header natsgo.Header) (list []synchronizer.Property, key string) {
	if len(header) == 0 {
		return nil, ""
	}
	if all := header[headerPacked]; len(all) == 1 {
		return unpack(all[0]), ""
	}
	escaped := len(header[headerEscaped]) > 0
	list = make([]synchronizer.Property, 0, len(header))
	for name, values := range header {
		if len(values) == 0 || name == headerEscaped || reserved(name) {
			continue
		}
		value := values[0]
		if escaped {
			if text, ok := unescape(value, '%'); ok {
				value = text
			}
		}
		if name == headerKey {
			key = value
			continue
		}
		if strings.IndexByte(name, '%') >= 0 {
			name = unescapeName(name)
		}
		list = append(list, synchronizer.Property{Name: name, Value: value})
	}
	return list, key
}

// safeValue reports whether a header brings s through unchanged.
func safeValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s == "" || s[0] != ' ' && s[len(s)-1] != ' '
}

// escapeName keeps names apart from those that mean something to the broker or
// to this package.
func escapeName(name string) string {
	if name == "" {
		return "%"
	}
	escaped := escape(name, func(c byte) bool { return plain(c) || c == '.' })
	if reserved(escaped) || escaped == headerEscaped || escaped == headerKey || escaped == headerPacked {
		return fmt.Sprintf("%%%02X%s", escaped[0], escaped[1:])
	}
	return escaped
}

func unescapeName(name string) string {
	if name == "%" {
		return ""
	}
	if text, ok := unescape(name, '%'); ok {
		return text
	}
	return name
}

// reserved reports whether a header is the broker's.
func reserved(name string) bool {
	return len(name) >= 5 && strings.EqualFold(name[:5], "nats-") || name == "Status" || name == "Description"
}

func escape(s string, keep func(byte) bool) string {
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		clean = keep(s[i])
	}
	if clean {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := range len(s) {
		if c := s[i]; keep(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}
