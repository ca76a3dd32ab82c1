// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"synchronizer"
	"synchronizer/internal/rawjson"
	"synchronizer/internal/telemetry/traceparent"
)

// Limits bound what one frame may become in memory, beyond its own size.
type Limits struct {
	// MaxItems is the number of items of a batch; 0 means DefaultMaxItems.
	MaxItems int
}

// leastItem is less than the bytes of any item that a peer writes.
const leastItem = 128

// DefaultMaxItems is more than a reconciliation of one kind needs; an item takes
// about 500 bytes in memory.
const DefaultMaxItems = 1 << 18

// ErrMalformed wraps every error of ParseV1.
var ErrMalformed = fmt.Errorf("%w frame", synchronizer.ErrInvalid)

// fields are the raw values of a frame, nil where missing or null.
type fields struct {
	depth, event, kind, msgID, name, namespace, version, checksum []byte
	object, patch, base, batchType, items                         []byte
	trace                                                         []byte
}

// ParseV1 reads a frame. An event that this version does not know gives a
// message with EventUnknown and no error. An error wraps ErrMalformed: not a JSON
// object, Event missing or null, Kind null where an object is meant, a member of
// the wrong type, a number that does not fit. Only members that the event has
// are looked at; a missing one is zero, except Event, Kind and (of a batch)
// Items. As with encoding/json a key matches in any case, and of several the
// last one counts.
//
// The result shares no memory with frame.
func ParseV1(frame []byte, limits Limits) (synchronizer.Message, error) {
	p := parser{limits: limits}
	if p.limits.MaxItems <= 0 {
		p.limits.MaxItems = DefaultMaxItems
	}
	c := rawjson.NewCursor(frame)
	f, err := readFields(&c)
	if err == nil {
		err = c.End()
	}
	var m synchronizer.Message
	if err == nil {
		err = p.message(&m, &f)
	}
	if err != nil {
		return synchronizer.Message{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return m, nil
}

// readFields reads the object that the cursor stands in front of.
func readFields(c *rawjson.Cursor) (fields, error) {
	var f fields
	if c.Type() != rawjson.Object {
		return f, errors.New("not a JSON object")
	}
	if err := c.Enter(); err != nil {
		return f, err
	}
	for {
		key, ok, err := c.Member()
		if !ok || err != nil {
			return f, err
		}
		isNull := c.Type() == rawjson.Null
		value, err := c.Skip()
		if err != nil {
			return f, err
		}
		if field := f.field(key); field != nil && !isNull {
			*field = value
		}
	}
}

func (f *fields) field(key rawjson.Text) *[]byte {
	if field := f.exact(string(key)); field != nil {
		return field
	}
	// No spelling of a known key is longer: six bytes an escaped letter at most.
	if len(key) > maxKey {
		return nil
	}
	for i := range keys {
		if key.EqualFold(keys[i]) {
			return f.exact(`"` + keys[i] + `"`)
		}
	}
	return nil
}

// maxKey bounds the work of comparing keys.
const maxKey = 6*len("ResourceVersion") + 2

var keys = [...]string{
	"Depth", "Event", "Kind", "MsgId", "Name", "Namespace", "ResourceVersion", "Checksum",
	"Object", "Patch", "BaseObject", "BatchType", "Items", traceparent.Name,
}

func (f *fields) exact(quoted string) *[]byte {
	switch quoted {
	case `"Depth"`:
		return &f.depth
	case `"Event"`:
		return &f.event
	case `"Kind"`:
		return &f.kind
	case `"MsgId"`:
		return &f.msgID
	case `"Name"`:
		return &f.name
	case `"Namespace"`:
		return &f.namespace
	case `"ResourceVersion"`:
		return &f.version
	case `"Checksum"`:
		return &f.checksum
	case `"Object"`:
		return &f.object
	case `"Patch"`:
		return &f.patch
	case `"BaseObject"`:
		return &f.base
	case `"BatchType"`:
		return &f.batchType
	case `"Items"`:
		return &f.items
	case `"` + traceparent.Name + `"`:
		return &f.trace
	}
	return nil
}

type parser struct {
	limits  Limits
	rawKind []byte // of the last kind read: the items of a batch repeat it
	kind    synchronizer.Kind
}

func (p *parser) message(m *synchronizer.Message, f *fields) error {
	if f.event == nil {
		return errors.New("Event is missing or null")
	}
	event, err := integer("Event", f.event)
	if err != nil {
		return err
	}
	depth, err := integer("Depth", f.depth)
	if err != nil {
		return err
	}
	if depth < 0 || depth > 1<<31-1 {
		return fmt.Errorf("Depth %d is out of range", depth)
	}
	m.Depth = int(depth)
	if m.MsgID, err = text("MsgId", f.msgID); err != nil {
		return err
	}
	m.TraceParent = readTrace(f.trace)
	switch event {
	case numVerify:
		m.Event = synchronizer.EventVerify
	case numDelete:
		m.Event = synchronizer.EventDelete
	case numGet:
		m.Event = synchronizer.EventGet
	case numPatch:
		m.Event = synchronizer.EventPatch
	case numPut:
		m.Event = synchronizer.EventPut
	case numPing:
		m.Event = synchronizer.EventPing
		return nil
	case numBatch:
		m.Event = synchronizer.EventBatch
		return p.batch(m, f)
	default:
		p.nameUnknown(m, f)
		return nil
	}
	return p.object(m, f)
}

// readTrace never fails: a peer that does not know the member could have it mean
// anything.
func readTrace(raw []byte) string {
	if len(raw) != traceparent.Length+len(`""`) {
		return ""
	}
	return traceparent.Clean(string(raw[1 : len(raw)-1]))
}

// nameUnknown fills in what helps to name an event of the future, if it is
// where it would be today.
func (p *parser) nameUnknown(m *synchronizer.Message, f *fields) {
	if kind, err := p.readKind(f.kind); err == nil {
		m.Kind = kind
	}
	m.Namespace, _ = text("Namespace", f.namespace)
	m.Name, _ = text("Name", f.name)
}

// object reads the members of an event about one object.
func (p *parser) object(m *synchronizer.Message, f *fields) (err error) {
	if m.Kind, err = p.readKind(f.kind); err != nil {
		return err
	}
	if m.Name, err = text("Name", f.name); err != nil {
		return err
	}
	if m.Namespace, err = text("Namespace", f.namespace); err != nil {
		return err
	}
	if m.ResourceVersion, err = integer("ResourceVersion", f.version); err != nil {
		return err
	}
	switch m.Event {
	case synchronizer.EventVerify:
		m.Checksum, err = text("Checksum", f.checksum)
	case synchronizer.EventGet:
		m.Body, err = body("BaseObject", f.base)
	case synchronizer.EventPatch:
		if m.Checksum, err = text("Checksum", f.checksum); err == nil {
			m.Body, err = body("Patch", f.patch)
		}
	case synchronizer.EventPut:
		if m.Checksum, err = text("Checksum", f.checksum); err == nil {
			m.Body, err = body("Object", f.object)
		}
	}
	return err
}

// readOrder is the order in which servers in the field handle the lists of a
// batch, as indexes of lists.
var readOrder = [len(lists)]int{3, 1, 2, 4, 0}

func (p *parser) batch(m *synchronizer.Message, f *fields) (err error) {
	if m.Kind, err = p.readKind(f.kind); err != nil {
		return err
	}
	if m.BatchType, err = text("BatchType", f.batchType); err != nil {
		return err
	}
	if rawjson.TypeOf(f.items) != rawjson.Object {
		return errors.New("Items is not an object")
	}
	var values [len(lists)][]byte
	err = rawjson.Members(f.items, func(key rawjson.Text, value []byte) error {
		for i := range lists {
			if len(key) <= maxKey && key.EqualFold(lists[i].name) {
				values[i] = value
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, i := range readOrder {
		if t := rawjson.TypeOf(values[i]); t == rawjson.Null || values[i] == nil {
			continue
		} else if t != rawjson.Array {
			return fmt.Errorf("Items.%s is not an array", lists[i].name)
		}
		if err := p.list(m, i, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// list reads the items of one list. The list says what they are: their own
// Event is not looked at.
func (p *parser) list(m *synchronizer.Message, list int, raw []byte) error {
	// Growing by doubling would cost a list of 50,000 objects 30 MiB of garbage. An
	// item of a peer has a MsgId and is longer than leastItem, so a hostile frame
	// gains nothing by naming many.
	m.Items = slices.Grow(m.Items, min(bytes.Count(raw, []byte(`"MsgId"`)), len(raw)/leastItem, p.limits.MaxItems-len(m.Items)))
	c := rawjson.NewCursor(raw)
	if err := c.Enter(); err != nil {
		return err
	}
	for n := 0; ; n++ {
		ok, err := c.Element()
		if !ok || err != nil {
			return err
		}
		if len(m.Items) == p.limits.MaxItems {
			return fmt.Errorf("more than %d items", p.limits.MaxItems)
		}
		f, err := readFields(&c)
		if err == nil {
			m.Items = append(m.Items, synchronizer.Message{Event: lists[list].event})
			err = p.item(&m.Items[len(m.Items)-1], &f)
		}
		if err != nil {
			return fmt.Errorf("item %d of %s: %w", n, lists[list].name, err)
		}
	}
}

func (p *parser) item(m *synchronizer.Message, f *fields) (err error) {
	depth, err := integer("Depth", f.depth)
	if err != nil || depth < 0 || depth > 1<<31-1 {
		return errors.New("Depth is out of range")
	}
	m.Depth = int(depth)
	if m.MsgID, err = text("MsgId", f.msgID); err != nil {
		return err
	}
	return p.object(m, f)
}

func (p *parser) readKind(raw []byte) (synchronizer.Kind, error) {
	if raw == nil {
		return synchronizer.Kind{}, errors.New("Kind is missing or null")
	}
	if bytes.Equal(raw, p.rawKind) {
		return p.kind, nil
	}
	if rawjson.TypeOf(raw) != rawjson.Object {
		return synchronizer.Kind{}, errors.New("Kind is not an object")
	}
	var k synchronizer.Kind
	err := rawjson.Members(raw, func(key rawjson.Text, value []byte) (err error) {
		if rawjson.TypeOf(value) == rawjson.Null || len(key) > maxKey {
			return nil
		}
		switch {
		case key.EqualFold("Group"):
			k.Group, err = text("Kind.Group", value)
		case key.EqualFold("Version"):
			k.Version, err = text("Kind.Version", value)
		case key.EqualFold("Resource"):
			k.Resource, err = text("Kind.Resource", value)
		}
		return err
	})
	if err != nil {
		return synchronizer.Kind{}, err
	}
	if !k.Valid() {
		return synchronizer.Kind{}, errors.New("Kind has no version or resource, or a slash in one")
	}
	p.rawKind, p.kind = raw, k
	return k, nil
}
