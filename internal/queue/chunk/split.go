// SPDX-License-Identifier: Apache-2.0

package chunk

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"synchronizer"
	"synchronizer/internal/telemetry/traceparent"
)

const (
	event      = "event"
	eventChunk = "Chunk"

	prefix        = "x-chunk-"
	propertyID    = prefix + "id"
	propertyIndex = prefix + "index"
	propertyCount = prefix + "count"
	propertyEvent = prefix + "event" // of the whole; absent if it has none

	idLength = 32
	digits   = len("1000000") // of index and count, in sizes
)

// sizeOf is the size of a record that Options.Size stands for by default.
func sizeOf(r *synchronizer.Record) int { return r.Size() + 16*len(r.Properties) }

// identity is a hash of the whole record. Properties without a value do not
// count, since some brokers leave them out, nor does the trace, since a call that is
// repeated makes another.
func identity(r *synchronizer.Record) string {
	h := sha256.New()
	text := func(s string) {
		fmt.Fprintf(h, "%d:", len(s))
		_, _ = io.WriteString(h, s)
	}
	list := slices.Clone(r.Properties)
	slices.SortFunc(list, func(a, b synchronizer.Property) int { return cmp.Compare(a.Name, b.Name) })
	text(r.Key)
	for i := range list {
		if list[i].Value != "" && list[i].Name != traceparent.Name {
			text(list[i].Name)
			text(list[i].Value)
		}
	}
	_, _ = h.Write(r.Payload)
	return hex.EncodeToString(h.Sum(nil))[:idLength]
}

// split makes the chunks of a record; their payloads are parts of its own, not
// copies.
func (o *options) split(r *synchronizer.Record) ([]synchronizer.Record, error) {
	if len(r.Payload) > o.MaxSetBytes {
		return nil, fmt.Errorf("record of %q with %d bytes, of which %d can be split: %w",
			r.Key, len(r.Payload), o.MaxSetBytes, synchronizer.ErrTooLarge)
	}
	whole := synchronizer.Record{Key: r.Key, Payload: r.Payload}
	frame := make([]synchronizer.Property, 0, len(r.Properties)+5)
	for _, p := range r.Properties {
		if strings.HasPrefix(p.Name, prefix) {
			continue
		}
		whole.Properties = append(whole.Properties, p)
		if p.Name == event {
			p.Name = propertyEvent
		}
		frame = append(frame, p)
	}
	frame = append(frame, synchronizer.Property{Name: event, Value: eventChunk},
		synchronizer.Property{Name: propertyID, Value: strings.Repeat("0", idLength)},
		synchronizer.Property{Name: propertyIndex, Value: strings.Repeat("0", digits)},
		synchronizer.Property{Name: propertyCount, Value: strings.Repeat("0", digits)})
	room := o.MaxRecord - o.Size(&synchronizer.Record{Key: r.Key, Properties: frame})
	if room <= 0 {
		return nil, fmt.Errorf("record of %q, whose properties alone take %d of %d bytes: %w",
			r.Key, o.MaxRecord-room, o.MaxRecord, synchronizer.ErrTooLarge)
	}
	count := max(1, (len(r.Payload)+room-1)/room)
	if count >= 10_000_000 {
		return nil, fmt.Errorf("record of %q in chunks of %d bytes: %w", r.Key, room, synchronizer.ErrTooLarge)
	}
	last := len(frame) - 1
	frame[last-2].Value, frame[last].Value = identity(&whole), strconv.Itoa(count)
	chunks := make([]synchronizer.Record, count)
	for i := range chunks {
		properties := slices.Clone(frame)
		properties[last-1].Value = strconv.Itoa(i)
		chunks[i] = synchronizer.Record{
			Key: r.Key, Properties: properties,
			Payload: r.Payload[i*room : min((i+1)*room, len(r.Payload))],
		}
	}
	return chunks, nil
}

// part is what a chunk says about itself.
type part struct {
	id           string
	index, count int
}

// isChunk tells chunks from other records.
func isChunk(r *synchronizer.Record) bool {
	for i := range r.Properties {
		if r.Properties[i].Name == event {
			return r.Properties[i].Value == eventChunk && r.Property(propertyID) != ""
		}
	}
	return false
}

// partOf reads the properties of a chunk; false if they make no sense.
func partOf(r *synchronizer.Record) (p part, ok bool) {
	p.id = r.Property(propertyID)
	var err error
	if p.index, err = strconv.Atoi(r.Property(propertyIndex)); err != nil {
		return p, false
	}
	if p.count, err = strconv.Atoi(r.Property(propertyCount)); err != nil {
		return p, false
	}
	return p, len(p.id) <= 4*idLength && p.index >= 0 && p.index < p.count
}

// restored are the properties of the whole.
func restored(list []synchronizer.Property) []synchronizer.Property {
	whole := make([]synchronizer.Property, 0, len(list))
	for _, p := range list {
		switch {
		case p.Name == propertyEvent:
			p.Name = event
		case p.Name == event, strings.HasPrefix(p.Name, prefix):
			continue
		}
		whole = append(whole, p)
	}
	return whole
}
