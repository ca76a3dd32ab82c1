// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"

	"synchronizer"
	"synchronizer/internal/policy"
	"synchronizer/internal/rawjson"
)

var errNoName = errors.New("reading object: metadata.name is missing")

// typeMeta gives the apiVersion and the kind name of the objects of a list.
type typeMeta struct{ apiVersion, kind string }

// itemReader turns the raw bytes of objects into objects.
type itemReader struct {
	limit int // bytes of one item
	// typeMeta is asked for when an object lacks it.
	typeMeta func() (typeMeta, error)
	prefix   []byte // `{"kind":…,"apiVersion":…,`
	buffer   []byte
}

// read takes one value from s. An error means that not even the identity of
// the object could be read, so nothing that follows can be trusted to be complete.
func (r *itemReader) read(s *scanner) (synchronizer.Object, error) {
	raw, err := s.value(r.limit)
	if errors.Is(err, errLimit) {
		o, err := identify(raw, fmt.Errorf("%w: object has more than %d bytes", synchronizer.ErrTooLarge, r.limit))
		if err != nil {
			return o, err
		}
		return o, s.rest()
	}
	if err != nil {
		return synchronizer.Object{}, err
	}
	return r.object(raw)
}

// object reads what raw is; the result's body is valid until the next call.
func (r *itemReader) object(raw []byte) (synchronizer.Object, error) {
	meta, err := rawjson.Metadata(raw)
	if err != nil {
		return identify(raw, fmt.Errorf("reading object: %w", err))
	}
	if meta.Name == "" {
		return synchronizer.Object{}, errNoName
	}
	o := synchronizer.Object{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID,
		ResourceVersion: meta.ResourceVersion, Body: raw,
	}
	if meta.APIVersion == "" || meta.Kind == "" {
		if o.Body, err = r.typed(raw, meta); err != nil {
			return o, err
		}
	}
	return o, nil
}

// typed adds what raw lacks of kind and apiVersion.
func (r *itemReader) typed(raw []byte, meta rawjson.Meta) ([]byte, error) {
	t, err := r.typeMeta()
	if err != nil {
		return nil, err
	}
	if meta.APIVersion != "" || meta.Kind != "" || raw[0] != '{' {
		return policy.AddTypeMeta(nil, raw, t.apiVersion, t.kind)
	}
	// As the items of all built-in kinds lack both, what is put in front is made
	// once, instead of scanning each of them again.
	if r.prefix == nil {
		alone, err := policy.AddTypeMeta(nil, []byte("{}"), t.apiVersion, t.kind)
		if err != nil {
			return nil, err
		}
		r.prefix = append(alone[:len(alone)-1], ',')
	}
	r.buffer = append(append(r.buffer[:0], r.prefix...), raw[1:]...)
	return r.buffer, nil
}

// identify reads the identity of an object that cannot be read as a whole (cut
// off, nested too deeply, not JSON in its depths) and gives it the fault; if
// there is no identity, the fault is the error.
func identify(raw []byte, fault error) (synchronizer.Object, error) {
	o := synchronizer.Object{Err: fault}
	c := rawjson.NewCursor(raw)
	if c.Enter() != nil {
		return o, fault
	}
	var metadata []byte
	for metadata == nil {
		key, ok, err := c.Member()
		if err != nil || !ok {
			return o, fault
		}
		value, err := c.Skip()
		if err != nil {
			return o, fault
		}
		if key.Equal("metadata") {
			metadata = value
		}
	}
	err := rawjson.Members(metadata, func(key rawjson.Text, value []byte) error {
		if rawjson.TypeOf(value) != rawjson.String {
			return nil
		}
		switch text := rawjson.Text(value).String(); {
		case key.Equal("name"):
			o.Name = text
		case key.Equal("namespace"):
			o.Namespace = text
		case key.Equal("uid"):
			o.UID = text
		case key.Equal("resourceVersion"):
			o.ResourceVersion = text
		}
		return nil
	})
	if err != nil || o.Name == "" {
		return o, fault
	}
	return o, nil
}
