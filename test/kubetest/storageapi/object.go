// SPDX-License-Identifier: Apache-2.0

package storageapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// object is one state of an object. It never changes.
type object struct {
	namespace, name string
	uid             string
	version         uint64
	labels          labels.Set
	kind            string
	metadata        map[string]json.RawMessage
	members         map[string]json.RawMessage // besides kind, apiVersion and metadata
}

// identity is what metadata says.
type identity struct {
	Namespace       string            `json:"namespace"`
	Name            string            `json:"name"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels"`
}

// document is what a test or client has written.
type document struct {
	apiVersion, kind string
	identity         identity
	metadata         map[string]json.RawMessage
	members          map[string]json.RawMessage
}

func readDocument(body []byte) (document, error) {
	var d document
	if err := json.Unmarshal(body, &d.members); err != nil {
		return d, fmt.Errorf("reading object: %w", err)
	}
	for name, to := range map[string]any{"apiVersion": &d.apiVersion, "kind": &d.kind, "metadata": &d.metadata} {
		if raw, ok := d.members[name]; ok {
			if err := json.Unmarshal(raw, to); err != nil {
				return d, fmt.Errorf("reading %s: %w", name, err)
			}
		}
	}
	if raw, ok := d.members["metadata"]; ok {
		if err := json.Unmarshal(raw, &d.identity); err != nil {
			return d, fmt.Errorf("reading metadata: %w", err)
		}
	}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(d.members, name)
	}
	return d, nil
}

// newObject makes the state at version of an object whose earlier state, if it
// has one, is old.
func newObject(k *kind, namespace, name string, d document, version uint64, old *object) *object {
	o := &object{
		namespace: namespace, name: name, version: version, labels: d.identity.Labels, kind: k.objectKind,
		uid:      fmt.Sprintf("00000000-0000-4000-8000-%012d", version),
		metadata: maps.Clone(d.metadata), members: d.members,
	}
	if o.metadata == nil {
		o.metadata = map[string]json.RawMessage{}
	}
	created := quote(time.Now().UTC().Format(time.RFC3339))
	if old != nil {
		o.uid, created = old.uid, old.metadata["creationTimestamp"]
	}
	o.metadata["name"] = quote(name)
	delete(o.metadata, "namespace")
	if namespace != "" {
		o.metadata["namespace"] = quote(namespace)
	}
	o.metadata["uid"], o.metadata["creationTimestamp"] = quote(o.uid), created
	o.metadata["resourceVersion"] = quote(strconv.FormatUint(version, 10))
	return o
}

// at returns the same state under another resourceVersion, for a DELETED event.
func (o *object) at(version uint64) *object {
	later := *o
	later.version, later.metadata = version, maps.Clone(o.metadata)
	later.metadata["resourceVersion"] = quote(strconv.FormatUint(version, 10))
	return &later
}

func (o *object) key() string { return o.namespace + "/" + o.name }

// encode returns the object as JSON. A hollow one has an empty spec (and status,
// if it has one); items of a list are not typed.
func (o *object) encode(hollow, typed bool) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	if typed {
		_, _ = fmt.Fprintf(&b, `"kind":%q,"apiVersion":%q,`, o.kind, groupVersion)
	}
	metadata, _ := json.Marshal(o.metadata) // made of valid JSON
	_, _ = fmt.Fprintf(&b, `"metadata":%s`, metadata)
	if hollow {
		b.WriteString(`,"spec":{}`)
		if _, ok := o.members["status"]; ok {
			b.WriteString(`,"status":{}`)
		}
	} else {
		for _, name := range slices.Sorted(maps.Keys(o.members)) {
			_, _ = fmt.Fprintf(&b, `,%s:%s`, quote(name), o.members[name])
		}
	}
	b.WriteByte('}')
	return b.Bytes()
}

func quote(s string) json.RawMessage {
	text, _ := json.Marshal(s) // strings always can be
	return text
}

// selection is what a list or watch is about.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func readSelection(request Request) (selection, error) {
	s := selection{namespace: request.Namespace}
	var err error
	if s.labels, err = labels.Parse(request.Query.Get("labelSelector")); err != nil {
		return s, fmt.Errorf("reading label selector: %w", err)
	}
	if s.fields, err = fields.ParseSelector(request.Query.Get("fieldSelector")); err != nil {
		return s, fmt.Errorf("reading field selector: %w", err)
	}
	return s, nil
}

func (s selection) has(o *object) bool {
	return o != nil && (s.namespace == "" || s.namespace == o.namespace) && s.labels.Matches(o.labels) &&
		s.fields.Matches(fields.Set{"metadata.name": o.name, "metadata.namespace": o.namespace})
}
