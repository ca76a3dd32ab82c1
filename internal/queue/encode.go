// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"synchronizer"
)

// Encoding is how a record carries an object's message.
type Encoding uint8

// The encodings.
const (
	Field   Encoding = iota + 1 // JSON with base64, as the field writes it
	Compact                     // properties and raw bytes
)

// ParseEncoding reads the value of messageQueue.encoding.
func ParseEncoding(s string) (Encoding, error) {
	switch s {
	case "field":
		return Field, nil
	case encodingCompact:
		return Compact, nil
	}
	return 0, fmt.Errorf("%w: encoding %q is neither field nor compact", synchronizer.ErrInvalid, s)
}

// Producer is who makes a record.
type Producer uint8

// The producers. Backend is every service behind the queue: ingester, API.
const (
	Backend Producer = iota
	Server
)

// Encoder turns messages into records. It has no state; any number of
// goroutines may use one.
type Encoder struct {
	Encoding Encoding
	Producer Producer
	// Now gives the timestamp; nil means time.Now.
	Now func() time.Time
}

// Extra is what a record says beyond the message; empty fields are left out.
type Extra struct {
	Link            string // "v1" or "v2"
	UID             string // of the object
	ResourceVersion string // of the object, exact text
}

// Encode builds the record of one message. With Compact the payload is m.Body
// itself, not a copy. Errors wrap ErrInvalid: the message can never be a
// record (kind, account or cluster that others could not read, an event that
// does not exist on a queue).
func (e *Encoder) Encode(m *synchronizer.Message, extra Extra) (synchronizer.Record, error) {
	var r synchronizer.Record
	if err := check(m); err != nil {
		return r, err
	}
	object := m.Event.AboutObject()
	if m.ClusterID != (synchronizer.ClusterID{}) {
		r.Key = m.ClusterID.String()
	}
	r.Properties = e.properties(m, extra)
	if object && e.Encoding == Compact {
		r.Payload = m.Body
		return r, nil
	}
	payload, err := payloadOf(m)
	if err != nil {
		return synchronizer.Record{}, err
	}
	r.Payload = payload
	return r, nil
}

// check refuses what a reader of the record would have to refuse.
func check(m *synchronizer.Message) error {
	switch m.Event {
	case synchronizer.EventVerify, synchronizer.EventPut, synchronizer.EventPatch, synchronizer.EventDelete, synchronizer.EventGet:
		if !m.Kind.Valid() {
			return fmt.Errorf("%w: kind %q is not of the form group/version/resource", synchronizer.ErrInvalid, m.Kind)
		}
		// A text that JSON would change reads back as another object.
		if !utf8.ValidString(m.Namespace) || !utf8.ValidString(m.Name) ||
			!utf8.ValidString(m.Kind.Group) || !utf8.ValidString(m.Kind.Version) || !utf8.ValidString(m.Kind.Resource) {
			return fmt.Errorf("%w: identity of the object is not UTF-8", synchronizer.ErrInvalid)
		}
	case synchronizer.EventReconciliation, synchronizer.EventServerConnected:
	case synchronizer.EventConnectedClients, synchronizer.EventReconciliationBatch, synchronizer.EventIngesterPresent:
		if m.ClusterID == (synchronizer.ClusterID{}) {
			return nil
		}
	default:
		return fmt.Errorf("%w: event %s does not travel on a queue", synchronizer.ErrInvalid, m.Event)
	}
	if !utf8.ValidString(m.Account) || !utf8.ValidString(m.Cluster) {
		return fmt.Errorf("%w: account or cluster is not UTF-8", synchronizer.ErrInvalid)
	}
	return m.ClusterID.Validate()
}

func (e *Encoder) properties(m *synchronizer.Message, extra Extra) []synchronizer.Property {
	now := e.Now
	if now == nil {
		now = time.Now
	}
	object := m.Event.AboutObject()
	size := mostPropertiesNoObject
	if object {
		size = mostProperties
	}
	list := make([]synchronizer.Property, 0, size)
	add := func(name, value string) {
		list = append(list, synchronizer.Property{Name: name, Value: value})
	}
	addIf := func(name, value string) {
		if value != "" {
			add(name, value)
		}
	}
	add(PropertyTimestamp, now().UTC().Format(time.RFC3339Nano))
	add(PropertyEvent, m.Event.String())
	addIf(PropertyAccount, m.Account)
	addIf(PropertyCluster, m.Cluster)
	if object {
		// The field keeps them when empty.
		add(PropertyGroup, m.Kind.Group)
		add(PropertyVersion, m.Kind.Version)
		add(PropertyResource, m.Kind.Resource)
		add(PropertyName, m.Name)
		add(PropertyNamespace, m.Namespace)
		add(PropertyResourceVersion, strconv.FormatInt(m.ResourceVersion, 10))
		if e.Encoding == Compact {
			add(PropertyEncoding, encodingCompact)
			add(PropertyDepth, strconv.Itoa(m.Depth))
			addIf(PropertyMsgID, m.MsgID)
			addIf(PropertyChecksum, m.Checksum)
		}
		addIf(PropertyUID, extra.UID)
		addIf(PropertyObjectVersion, extra.ResourceVersion)
	}
	if e.Producer == Server {
		add(PropertyProducerSource, producerServer)
	}
	addIf(PropertyLink, extra.Link)
	addIf(PropertySource, m.Source)
	if m.Seq != 0 {
		add(PropertySeq, strconv.FormatUint(m.Seq, 10))
	}
	addIf(PropertyTraceParent, m.TraceParent)
	return list
}
