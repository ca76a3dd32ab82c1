// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"fmt"
	"strconv"

	"synchronizer"
	"synchronizer/internal/telemetry/traceparent"
)

// ErrForeign marks an error of Decode: account or cluster of the payload
// disagree with the properties. It comes together with ErrInvalid.
var ErrForeign = errors.New("identity of the payload disagrees with the record's properties")

// PartialError comes with a message of which parts could not be read: kinds of a
// reconciliation, requests of a batch. Whoever takes the message acts on the rest
// and names these.
type PartialError struct{ Left []error }

func (e *PartialError) Error() string {
	return fmt.Sprintf("reading a part of the record: %v (%d in all)", e.Left[0], len(e.Left))
}

// Unwrap gives the causes.
func (e *PartialError) Unwrap() []error { return e.Left }

func partial(left []error) error {
	if len(left) == 0 {
		return nil
	}
	return &PartialError{left}
}

// Reason is the reason under which a record that Decode refused is counted.
func Reason(err error) synchronizer.DropReason {
	if errors.Is(err, ErrForeign) {
		return synchronizer.DropForeign
	}
	return synchronizer.DropMalformed
}

// Decode reads a record of either encoding. An event that is not known (or
// missing) gives a message with EventUnknown and no error. Every error wraps
// ErrInvalid; only with a PartialError there is a message as well. The message
// shares the record's payload.
//
// Account and cluster are those of the properties, always. Of an object's
// record in the field's encoding the payload says which object it is about;
// others need not set the properties about it.
func Decode(r *synchronizer.Record) (synchronizer.Message, error) { return decode(r, agree) }

// DecodeDownward is Decode for a server that hands the message down: as with servers in
// the field, nobody looks at account and cluster of the payload.
func DecodeDownward(r *synchronizer.Record) (synchronizer.Message, error) {
	return decode(r, func(synchronizer.ClusterID, string, string) error { return nil })
}

// identity judges account and cluster of a payload by those of the properties.
type identity func(id synchronizer.ClusterID, account, cluster string) error

func decode(r *synchronizer.Record, agree identity) (synchronizer.Message, error) {
	p := readProperties(r.Properties)
	m := synchronizer.Message{
		Event:     eventOf(p.event),
		ClusterID: synchronizer.ClusterID{Account: p.account, Cluster: p.cluster},

		TraceParent: traceparent.Clean(p.trace),
	}
	if m.Event == synchronizer.EventUnknown {
		return m, nil
	}
	anonymous := m.Event == synchronizer.EventConnectedClients || m.Event == synchronizer.EventReconciliationBatch ||
		m.Event == synchronizer.EventIngesterPresent
	if !anonymous || m.ClusterID != (synchronizer.ClusterID{}) {
		if err := m.ClusterID.Validate(); err != nil {
			return synchronizer.Message{}, fmt.Errorf("reading properties of %s: %w", m.Event, err)
		}
	}
	if err := decodeStamp(&m, &p); err != nil {
		return synchronizer.Message{}, err
	}
	var err error
	switch {
	case !m.Event.AboutObject():
		err = decodeOther(&m, r.Payload, agree)
	case p.encoding == "":
		err = decodeField(&m, &p, r.Payload, agree)
	case p.encoding == encodingCompact:
		err = decodeCompact(&m, &p, r.Payload)
	default:
		err = fmt.Errorf("%w: encoding %q is not known", synchronizer.ErrInvalid, p.encoding)
	}
	if m.Depth < 0 {
		err = fmt.Errorf("%w: depth %d", synchronizer.ErrInvalid, m.Depth)
	}
	var partly *PartialError
	if err != nil && !errors.As(err, &partly) {
		return synchronizer.Message{}, err
	}
	return m, err
}

// eventOf leaves out the events that exist only on a link.
func eventOf(text string) synchronizer.Event {
	switch e := synchronizer.ParseEvent(text); e {
	case synchronizer.EventPing, synchronizer.EventBatch:
		return synchronizer.EventUnknown
	default:
		return e
	}
}

func decodeStamp(m *synchronizer.Message, p *properties) error {
	m.Source = p.source
	if p.seq == "" {
		return nil
	}
	seq, err := strconv.ParseUint(p.seq, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s is not a number", synchronizer.ErrInvalid, PropertySeq)
	}
	m.Seq = seq
	return nil
}

func decodeCompact(m *synchronizer.Message, p *properties, payload []byte) error {
	m.Kind = synchronizer.Kind{Group: p.group, Version: p.version, Resource: p.resource}
	if !m.Kind.Valid() {
		return fmt.Errorf("%w: kind %q is not of the form group/version/resource", synchronizer.ErrInvalid, m.Kind)
	}
	if p.depth != "" {
		depth, err := strconv.Atoi(p.depth)
		if err != nil {
			return fmt.Errorf("%w: %s is not a number", synchronizer.ErrInvalid, PropertyDepth)
		}
		m.Depth = depth
	}
	m.Namespace, m.Name, m.MsgID, m.Checksum = p.namespace, p.name, p.message, p.checksum
	m.ResourceVersion = number(p.resourceVersion)
	if len(payload) > 0 {
		m.Body = payload
	}
	return nil
}

func decodeField(m *synchronizer.Message, p *properties, payload []byte, agree identity) error {
	var object objectPayload
	if err := unmarshal(payload, m.Event, &object); err != nil {
		return err
	}
	if err := agree(m.ClusterID, object.Account, object.Cluster); err != nil {
		return err
	}
	kind, err := synchronizer.ParseKind(object.Kind)
	if err != nil {
		return fmt.Errorf("reading payload of %s: %w", m.Event, err)
	}
	m.Kind, m.Namespace, m.Name = kind, object.Namespace, object.Name
	m.Depth, m.MsgID = object.Depth, object.MsgID
	m.ResourceVersion = number(p.resourceVersion)
	switch m.Event {
	case synchronizer.EventPut, synchronizer.EventPatch, synchronizer.EventVerify:
		if object.Checksum != nil {
			m.Checksum = *object.Checksum
		}
		if object.Patch != nil && m.Event != synchronizer.EventVerify {
			m.Body = *object.Patch
		}
	case synchronizer.EventGet:
		if object.BaseObject != nil {
			m.Body = *object.BaseObject
		}
	}
	return nil
}

// decodeOther reads the events that are not about one object: JSON in both
// encodings.
func decodeOther(m *synchronizer.Message, payload []byte, agree identity) error {
	switch m.Event {
	case synchronizer.EventServerConnected:
		var p connectedPayload
		if err := unmarshal(payload, m.Event, &p); err != nil {
			return err
		}
		m.Depth, m.MsgID = p.Depth, p.MsgID
		return agree(m.ClusterID, p.Account, p.Cluster)
	case synchronizer.EventIngesterPresent:
		var p presentPayload
		if err := unmarshal(payload, m.Event, &p); err != nil {
			return err
		}
		m.Depth, m.MsgID = p.Depth, p.MsgID
		return nil
	case synchronizer.EventConnectedClients:
		var p clientsPayload
		if err := unmarshal(payload, m.Event, &p); err != nil {
			return err
		}
		p.message(m)
		return nil
	case synchronizer.EventReconciliation:
		var p reconciliationPayload
		if err := unmarshal(payload, m.Event, &p); err != nil {
			return err
		}
		if err := agree(m.ClusterID, p.Account, p.Cluster); err != nil {
			return err
		}
		return partial(p.message(m))
	default: // EventReconciliationBatch
		var p batchPayload
		if err := unmarshal(payload, m.Event, &p); err != nil {
			return err
		}
		m.Depth, m.MsgID = p.Depth, p.MsgID
		var left []error
		for i := range p.Requests {
			request := synchronizer.Message{
				Event:     synchronizer.EventReconciliation,
				ClusterID: synchronizer.ClusterID{Account: p.Requests[i].Account, Cluster: p.Requests[i].Cluster},
			}
			if err := request.ClusterID.Validate(); err != nil {
				left = append(left, fmt.Errorf("reading request %d of %s: %w", i, m.Event, err))
				continue
			}
			left = append(left, p.Requests[i].message(&request)...)
			m.Requests = append(m.Requests, request)
		}
		return partial(left)
	}
}

// agree compares the identity in a payload with the one of the properties; a
// payload that names none does not disagree.
func agree(id synchronizer.ClusterID, account, cluster string) error {
	if account != "" && account != id.Account || cluster != "" && cluster != id.Cluster {
		return fmt.Errorf("%w: %w: %q/%q against %q", synchronizer.ErrInvalid, ErrForeign, account, cluster, id)
	}
	return nil
}

// number reads a resourceVersion; 0 if the text does not fit.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
