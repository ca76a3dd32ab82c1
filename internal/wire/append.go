// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"strconv"

	"synchronizer"
	"synchronizer/internal/rawjson"
	"synchronizer/internal/telemetry/traceparent"
)

// The event numbers of link v1.
const (
	numVerify = 0
	numDelete = 2
	numGet    = 4
	numPatch  = 5
	numPut    = 6
	numPing   = 7
	numBatch  = 8
)

// AppendV1 appends the frame that says m. It does not check the body: Object,
// Patch and BaseObject are JSON strings around whatever bytes they hold. The
// error wraps ErrInvalid: an event that does not travel on link v1, or a kind
// that a peer could not read. Dst is returned as it was then.
func AppendV1(dst []byte, m *synchronizer.Message) ([]byte, error) {
	switch {
	case m.Event.AboutObject():
		return appendObject(dst, m)
	case m.Event == synchronizer.EventPing:
		dst = append(dst, `{"Depth":`...)
		dst = strconv.AppendInt(dst, int64(m.Depth), 10)
		dst = append(dst, `,"Event":7,"Kind":null,"MsgId":`...)
		dst = appendString(dst, m.MsgID)
		return append(dst, end...), nil
	case m.Event == synchronizer.EventBatch:
		return appendBatch(dst, m)
	}
	return dst, fmt.Errorf("%w: event %s does not travel on link v1", synchronizer.ErrInvalid, m.Event)
}

const end = `,"AdditionalProperties":null}`

// appendObject writes the members in the order of peers in the field, which is
// a different one per event.
func appendObject(dst []byte, m *synchronizer.Message) ([]byte, error) {
	if !m.Kind.Valid() {
		return dst, fmt.Errorf("%w: kind %q of a message", synchronizer.ErrInvalid, m.Kind)
	}
	var number byte
	switch m.Event {
	case synchronizer.EventVerify:
		number = numVerify
		dst = appendVersion(append(dst, '{'), m)
		dst = append(dst, `,"Checksum":`...)
		dst = appendString(dst, m.Checksum)
	case synchronizer.EventDelete:
		number = numDelete
		dst = appendVersion(append(dst, '{'), m)
	case synchronizer.EventGet:
		number = numGet
		dst = appendVersion(append(dst, '{'), m)
		dst = append(dst, `,"BaseObject":`...)
		dst = rawjson.AppendQuote(dst, m.Body)
	case synchronizer.EventPatch, synchronizer.EventPut:
		number = numPatch
		if m.Event == synchronizer.EventPut {
			number = numPut
		}
		dst = append(dst, `{"Checksum":`...)
		dst = appendString(dst, m.Checksum)
		dst = appendVersion(append(dst, ','), m)
	}
	dst = append(dst, `,"Depth":`...)
	dst = strconv.AppendInt(dst, int64(m.Depth), 10)
	dst = append(dst, `,"Event":`...)
	dst = append(dst, '0'+number)
	dst = appendKind(append(dst, `,"Kind":`...), m.Kind)
	dst = append(dst, `,"MsgId":`...)
	dst = appendString(dst, m.MsgID)
	dst = append(dst, `,"Name":`...)
	dst = appendString(dst, m.Name)
	dst = append(dst, `,"Namespace":`...)
	dst = appendString(dst, m.Namespace)
	switch m.Event {
	case synchronizer.EventPatch:
		dst = rawjson.AppendQuote(append(dst, `,"Patch":`...), m.Body)
	case synchronizer.EventPut:
		dst = rawjson.AppendQuote(append(dst, `,"Object":`...), m.Body)
	}
	return append(appendTrace(dst, m), end...), nil
}

// appendTrace writes a member that peers in the field do not know, and therefore
// ignore; only of messages that are in a trace.
func appendTrace(dst []byte, m *synchronizer.Message) []byte {
	if m.TraceParent == "" {
		return dst
	}
	return appendString(append(dst, `,"`+traceparent.Name+`":`...), m.TraceParent)
}

// lists are the members of Items, in the order on the wire.
var lists = [...]struct {
	name  string
	event synchronizer.Event
}{
	{"PutObject", synchronizer.EventPut},
	{"NewChecksum", synchronizer.EventVerify},
	{"ObjectDeleted", synchronizer.EventDelete},
	{"GetObject", synchronizer.EventGet},
	{"PatchObject", synchronizer.EventPatch},
}

func appendBatch(dst []byte, m *synchronizer.Message) ([]byte, error) {
	before := dst
	if !m.Kind.Valid() {
		return before, fmt.Errorf("%w: kind %q of a batch", synchronizer.ErrInvalid, m.Kind)
	}
	dst = append(dst, `{"Depth":`...)
	dst = strconv.AppendInt(dst, int64(m.Depth), 10)
	dst = append(dst, `,"Event":8,"MsgId":`...)
	dst = appendString(dst, m.MsgID)
	dst = appendKind(append(dst, `,"Kind":`...), m.Kind)
	dst = append(dst, `,"BatchType":`...)
	dst = appendString(dst, m.BatchType)
	dst = append(dst, `,"Items":{`...)
	written := 0
	for i, list := range lists {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), list.name...), `":`...)
		some := false
		for j := range m.Items {
			item := &m.Items[j]
			if item.Event != list.event {
				continue
			}
			if some {
				dst = append(dst, ',')
			} else {
				dst = append(dst, '[')
			}
			some = true
			written++
			var err error
			if dst, err = appendObject(dst, item); err != nil {
				return before, err
			}
		}
		switch {
		case some:
			dst = append(dst, ']')
		case len(m.Items) == 0 && m.BatchType == Reconciliation && list.event == synchronizer.EventVerify:
			dst = append(dst, `[]`...)
		default:
			dst = append(dst, `null`...)
		}
	}
	if written != len(m.Items) {
		return before, fmt.Errorf("%w: an item of a batch is not about an object", synchronizer.ErrInvalid)
	}
	return append(appendTrace(append(dst, end[:len(end)-1]+"}"...), m), end...), nil
}

// Reconciliation is the BatchType of a list of known objects.
const Reconciliation = "reconciliation"

func appendVersion(dst []byte, m *synchronizer.Message) []byte {
	return strconv.AppendInt(append(dst, `"ResourceVersion":`...), m.ResourceVersion, 10)
}

func appendKind(dst []byte, k synchronizer.Kind) []byte {
	dst = appendString(append(dst, `{"Group":`...), k.Group)
	dst = appendString(append(dst, `,"Version":`...), k.Version)
	dst = appendString(append(dst, `,"Resource":`...), k.Resource)
	return append(dst, end...)
}

// appendString is rawjson.AppendQuote for a string; nearly all of them need no escapes.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return rawjson.AppendQuote(dst, []byte(s))
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}
