// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"synchronizer"
)

// Strategy is how changes of a kind are sent.
type Strategy string

// The strategies.
const (
	Copy  Strategy = "copy"  // always the whole object
	Patch Strategy = "patch" // a patch against what was sent last
)

// Object is an object of a cluster, as the client would send it: stripped and masked.
type Object struct {
	Kind            synchronizer.Kind
	Namespace, Name string
	JSON            string
	// Hidden objects are what filters hide: not reported when created, but sent
	// when asked for (12).
	Hidden bool
}

type key struct {
	kind            synchronizer.Kind
	namespace, name string
}

type object struct {
	Object
	sent     string // the baseline; "" if there is none
	poisoned bool   // the baseline is not JSON (11)
}

// Cluster is a client in the field together with its cluster, without a
// connection: what happens goes in, frames come out. Not for concurrent use.
type Cluster struct {
	kinds   map[synchronizer.Kind]Strategy
	objects map[key]*object
	version int
	// NewID makes the MsgId of first messages.
	NewID func() string
}

// NewCluster has no objects. Other kinds than these are not configured.
func NewCluster(kinds map[synchronizer.Kind]Strategy) *Cluster {
	return &Cluster{kinds: kinds, objects: map[key]*object{}, version: 100_000, NewID: uuid.NewString}
}

// Set creates or changes an object: NewChecksum, PutObject or PatchObject.
func (c *Cluster) Set(o Object) []Frame {
	k := key{o.Kind, o.Namespace, o.Name}
	existing := c.objects[k]
	if existing == nil {
		existing = &object{Object: o}
		c.objects[k] = existing
		if o.Hidden {
			return nil
		}
		return []Frame{c.message(k, NewChecksum, Frame{Checksum: Checksum(o.JSON)}, nil)}
	}
	existing.Object = o
	if o.Hidden {
		return nil
	}
	return c.send(k, existing, nil)
}

// Delete removes an object: ObjectDeleted.
func (c *Cluster) Delete(kind synchronizer.Kind, namespace, name string) []Frame {
	k := key{kind, namespace, name}
	existing := c.objects[k]
	if existing == nil {
		return nil
	}
	delete(c.objects, k)
	if existing.Hidden {
		return nil
	}
	return []Frame{c.message(k, ObjectDeleted, Frame{}, nil)}
}

// Start is what a client sends when it starts: a Ping, then what exists.
func (c *Cluster) Start() []Frame {
	ping := Ping
	frames := []Frame{{Event: &ping, MsgId: c.NewID()}}
	for _, k := range c.sorted(func(k key) bool { return !c.objects[k].Hidden }) {
		frames = append(frames, c.message(k, NewChecksum, Frame{Checksum: Checksum(c.objects[k].JSON)}, nil))
	}
	return frames
}

// Answer is what the client sends because of a frame; often nothing. What is
// a contained panic in the field (2) gives nothing too.
func (c *Cluster) Answer(raw []byte) []Frame {
	f, ok := parse(raw)
	if !ok || f.Event == nil || f.Depth > synchronizer.MaxDepth || *f.Event == Ping {
		return nil
	}
	if *f.Event == Batch {
		return c.batch(&f)
	}
	return c.single(&f, *f.Event)
}

func (c *Cluster) batch(f *Frame) []Frame {
	if f.Kind == nil || f.Items == nil {
		return nil
	}
	if f.BatchType == "reconciliation" {
		return c.reconcile(f)
	}
	if f.BatchType != "" {
		return nil
	}
	var answers []Frame
	for _, list := range []struct {
		event int
		items []Frame
	}{
		{GetObject, f.Items.GetObject},
		{NewChecksum, f.Items.NewChecksum},
		{ObjectDeleted, f.Items.ObjectDeleted},
		{PatchObject, f.Items.PatchObject},
		{PutObject, f.Items.PutObject},
	} {
		for _, item := range list.items {
			item.MsgId, item.Depth = f.MsgId, f.Depth
			answers = append(answers, c.single(&item, list.event)...)
		}
	}
	return answers
}

func (c *Cluster) single(f *Frame, event int) []Frame {
	if f.Kind == nil || c.kinds[f.kind()] == "" {
		return nil
	}
	existing := c.objects[f.key()]
	switch event {
	case GetObject:
		return c.get(f, existing)
	case NewChecksum:
		if existing == nil || Checksum(existing.JSON) != f.Checksum {
			return c.askFor(f)
		}
	case ObjectDeleted:
		return c.Delete(f.kind(), f.Namespace, f.Name)
	case PatchObject:
		return c.patch(f, existing)
	case PutObject:
		return c.put(f, existing)
	}
	return nil
}

func (c *Cluster) get(f *Frame, existing *object) []Frame {
	if existing == nil {
		return nil
	}
	if c.kinds[f.kind()] == Patch && f.BaseObject != "" {
		_, ok := decode(f.BaseObject)
		existing.sent, existing.poisoned = f.BaseObject, !ok
	}
	return c.send(f.key(), existing, f)
}

// send sends the object, or how it differs from the baseline (10). Request is
// nil for a change in the cluster.
func (c *Cluster) send(k key, o *object, request *Frame) []Frame {
	if c.kinds[k.kind] == Copy || o.sent == "" {
		o.sent = o.JSON
		return []Frame{c.message(k, PutObject, Frame{Checksum: Checksum(o.JSON), Object: o.JSON}, request)}
	}
	if o.poisoned {
		return nil
	}
	before, _ := decode(o.sent)
	now, ok := decode(o.JSON)
	nowMap, ok2 := now.(map[string]any)
	if !ok || !ok2 {
		return nil
	}
	beforeMap, _ := before.(map[string]any)
	patch := diff(beforeMap, nowMap)
	if onlyResourceVersion(patch) {
		return nil
	}
	o.sent = o.JSON
	return []Frame{c.message(k, PatchObject, Frame{Checksum: checksum(apply(before, patch)), Patch: string(marshal(patch))}, request)}
}

func onlyResourceVersion(patch map[string]any) bool {
	metadata, ok := patch["metadata"].(map[string]any)
	_, has := metadata["resourceVersion"]
	return ok && has && len(patch) == 1 && len(metadata) == 1
}

func (c *Cluster) reconcile(f *Frame) []Frame {
	if c.kinds[f.kind()] == "" || len(f.Items.NewChecksum) == 0 {
		return nil
	}
	listed := map[key]string{}
	var deleted, puts, checksums []Frame
	for i := range f.Items.NewChecksum {
		item := &f.Items.NewChecksum[i]
		k := key{f.kind(), item.Namespace, item.Name}
		listed[k] = strconv.Itoa(item.ResourceVersion)
		if c.objects[k] == nil {
			deleted = append(deleted, c.message(k, ObjectDeleted, Frame{}, f))
		}
	}
	// Only resource versions are compared, never checksums (15).
	for _, k := range c.sorted(func(k key) bool { return k.kind == f.kind() }) {
		o := c.objects[k]
		version, known := listed[k]
		switch {
		case !known && !o.Hidden:
			checksums = append(checksums, c.message(k, NewChecksum, Frame{Checksum: Checksum(o.JSON)}, f))
		case known && version != o.resourceVersion():
			o.sent, o.poisoned = o.JSON, false
			puts = append(puts, c.message(k, PutObject, Frame{Checksum: Checksum(o.JSON), Object: o.JSON}, f))
		}
	}
	return slices.Concat(deleted, puts, checksums)
}

// askFor is the GetObject with which every patch and checksum that does not fit is answered.
func (c *Cluster) askFor(f *Frame) []Frame {
	return []Frame{c.message(f.key(), GetObject, Frame{}, f)}
}

// message fills in what an answer takes from its request, or a first message has.
func (c *Cluster) message(k key, event int, f Frame, request *Frame) Frame {
	f.Event, f.Namespace, f.Name = &event, k.namespace, k.name
	f.Kind = &Kind{Group: k.kind.Group, Version: k.kind.Version, Resource: k.kind.Resource}
	if request != nil {
		f.Depth, f.MsgId = request.Depth+1, request.MsgId
	} else {
		f.Depth, f.MsgId = 1, c.NewID()
	}
	f.Raw = f.encode()
	return f
}

func (c *Cluster) sorted(want func(key) bool) []key {
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(c.objects)), func(k key) bool { return !want(k) })
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.kind.String(), b.kind.String()), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return keys
}

func (o *object) resourceVersion() string {
	v, _ := decode(o.JSON)
	document, _ := v.(map[string]any)
	metadata, _ := document["metadata"].(map[string]any)
	version, _ := metadata["resourceVersion"].(string)
	return version
}
