// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// EventName is the event in the vocabulary of link v1, for metrics and logs.
func EventName(e synchronizer.Event) string {
	switch e {
	case synchronizer.EventVerify:
		return "NewChecksum"
	case synchronizer.EventDelete:
		return "ObjectDeleted"
	default: // the others are called the same on link and queue
		return e.String()
	}
}

// Name is what a message is about, for people: "apps/v1/deployments default/web",
// or for a batch its kind and type.
func Name(m *synchronizer.Message) string {
	if m.Event == synchronizer.EventBatch {
		return short(m.Kind.String()) + " (" + strings.TrimSpace(short(m.BatchType)+" batch") + ")"
	}
	if m.Kind == (synchronizer.Kind{}) {
		return EventName(m.Event)
	}
	return short(m.Kind.String()) + " " + short(m.Namespace) + "/" + short(m.Name)
}

// PeekName names what a frame is about from its beginning, for a drop that is
// not parsed. Peers in the field write kind and name before the body.
func PeekName(prefix []byte) string {
	const unnamed = "a frame without a name"
	c := rawjson.NewCursor(prefix)
	if c.Type() != rawjson.Object || c.Enter() != nil {
		return unnamed
	}
	var f fields
	for {
		key, ok, err := c.Member()
		if !ok || err != nil {
			break
		}
		value, err := c.Skip()
		if err != nil {
			break
		}
		if field := f.field(key); field != nil && rawjson.TypeOf(value) != rawjson.Null {
			*field = value
		}
	}
	var p parser
	m := synchronizer.Message{}
	if event, err := integer("Event", f.event); err == nil && event == numBatch {
		m.Event = synchronizer.EventBatch
		m.BatchType, _ = text("BatchType", f.batchType)
	}
	p.nameUnknown(&m, &f)
	if m.Kind == (synchronizer.Kind{}) {
		return unnamed
	}
	return Name(&m)
}

// short bounds a name in a log line; the API server allows 253 bytes.
func short(s string) string {
	const most = 253
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
