// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"bytes"
	"encoding/json"

	"synchronizer"
)

// The event numbers on the wire.
const (
	NewChecksum   = 0
	ObjectDeleted = 2
	GetObject     = 4
	PatchObject   = 5
	PutObject     = 6
	Ping          = 7
	Batch         = 8
)

// Kind is a kind as frames spell it.
type Kind struct {
	Group, Version, Resource string
	AdditionalProperties     *struct{}
}

// Frame is any frame as encoding/json reads it. What is not in it is zero.
type Frame struct {
	Depth           int
	Event           *int
	Kind            *Kind
	MsgId           string //nolint:revive,staticcheck // the name on the wire
	Name, Namespace string
	ResourceVersion int
	Checksum        string
	Object          string
	Patch           string
	BaseObject      string
	BatchType       string
	Items           *Items

	Raw []byte `json:"-"` // as it came
}

// Items are the parts of a batch.
type Items struct {
	PutObject, NewChecksum, ObjectDeleted, GetObject, PatchObject []Frame
}

// Is reports whether the frame is this event about this object.
func (f *Frame) Is(event int, kind synchronizer.Kind, namespace, name string) bool {
	return f.Event != nil && *f.Event == event && f.Kind != nil && f.kind() == kind && f.Namespace == namespace && f.Name == name
}

func (f *Frame) kind() synchronizer.Kind {
	return synchronizer.Kind{Group: f.Kind.Group, Version: f.Kind.Version, Resource: f.Kind.Resource}
}

func (f *Frame) key() key { return key{f.kind(), f.Namespace, f.Name} }

// parse reads a frame; false if it is none.
func parse(raw []byte) (Frame, bool) {
	var f Frame
	err := json.Unmarshal(raw, &f)
	f.Raw = bytes.Clone(raw)
	return f, err == nil
}

// encode writes the members in the order of the event.
func (f *Frame) encode() []byte {
	w := writer{}
	w.b.WriteByte('{')
	switch *f.Event {
	case Ping:
		w.member("Depth", f.Depth)
		w.member("Event", *f.Event)
		w.member("Kind", nil)
		w.member("MsgId", f.MsgId)
		return w.end()
	case NewChecksum:
		w.member("ResourceVersion", f.ResourceVersion)
		w.member("Checksum", f.Checksum)
	case ObjectDeleted:
		w.member("ResourceVersion", f.ResourceVersion)
	case GetObject:
		w.member("ResourceVersion", f.ResourceVersion)
		w.member("BaseObject", f.BaseObject)
	default:
		w.member("Checksum", f.Checksum)
		w.member("ResourceVersion", f.ResourceVersion)
	}
	w.member("Depth", f.Depth)
	w.member("Event", *f.Event)
	w.member("Kind", f.Kind)
	w.member("MsgId", f.MsgId)
	w.member("Name", f.Name)
	w.member("Namespace", f.Namespace)
	switch *f.Event {
	case PatchObject:
		w.member("Patch", f.Patch)
	case PutObject:
		w.member("Object", f.Object)
	}
	return w.end()
}

type writer struct{ b bytes.Buffer }

func (w *writer) member(name string, value any) {
	if w.b.Len() > 1 {
		w.b.WriteByte(',')
	}
	w.b.WriteString(`"` + name + `":`)
	w.b.Write(marshal(value))
}

func (w *writer) end() []byte {
	w.member("AdditionalProperties", nil)
	w.b.WriteByte('}')
	return w.b.Bytes()
}
