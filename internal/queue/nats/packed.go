// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"synchronizer"
)

// A header of its own for each of about 18 properties costs more than all the rest
// of the way through the broker: maps are built and read for each record on both
// ends. Nobody else can read the broker in the process, so there all properties of
// a record are one header: name, value, name, value.
const (
	headerPacked  = "Synchronizer-Packed"
	packedBetween = "\x1f" // in no safe value
)

// packed is of with one header, unless a property or the key needs more.
func (h *headers) packed(r *synchronizer.Record, hashed bool) (natsgo.Header, int) {
	length := 0
	for i := range r.Properties {
		p := &r.Properties[i]
		if hashed || !safeValue(p.Name) || !safeValue(p.Value) {
			return h.of(r, hashed)
		}
		length += len(p.Name) + len(p.Value) + 2*len(packedBetween)
	}
	if length == 0 {
		return h.of(r, hashed)
	}
	var b strings.Builder
	b.Grow(length)
	for i := range r.Properties {
		b.WriteString(r.Properties[i].Name)
		b.WriteString(packedBetween)
		b.WriteString(r.Properties[i].Value)
		b.WriteString(packedBetween)
	}
	if h.header == nil {
		h.header = make(natsgo.Header, 1)
	}
	clear(h.header)
	h.values = append(h.values[:0], b.String())
	h.header[headerPacked] = h.values[:1:1]
	return h.header, headerFrame + len(headerPacked) + length + lineFrame
}

// unpack is the reverse of packed; what is no pair is left out.
func unpack(text string) []synchronizer.Property {
	list := make([]synchronizer.Property, 0, strings.Count(text, packedBetween)/2)
	for {
		name, rest, found := strings.Cut(text, packedBetween)
		if !found {
			return list
		}
		var value string
		if value, text, found = strings.Cut(rest, packedBetween); !found {
			return list
		}
		list = append(list, synchronizer.Property{Name: name, Value: value})
	}
}
