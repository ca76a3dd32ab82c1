// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"maps"
	"reflect"
	"strconv"
)

// patch is a PatchObject from the backend. Whatever does not fit is answered by
// a GetObject, and so is a good one that keeps the resourceVersion: it is never
// written, but taken as the baseline (4, 5).
func (c *Cluster) patch(f *Frame, existing *object) []Frame {
	patch, ok := decode(f.Patch)
	if existing == nil || c.kinds[f.kind()] == Copy || !ok {
		return c.askFor(f)
	}
	current, _ := decode(existing.JSON)
	result, ok := apply(current, patch).(map[string]any)
	if !ok || checksum(result) != f.Checksum {
		return c.askFor(f)
	}
	existing.sent = string(marshal(result))
	existing.poisoned = false
	if hasResourceVersion(result) {
		return c.askFor(f)
	}
	c.write(existing, result)
	return c.send(f.key(), existing, nil)
}

// put is a PutObject from the backend. Its checksum is not verified (7), and
// one with a resourceVersion is never written (4). The echo is that of any change.
func (c *Cluster) put(f *Frame, existing *object) []Frame {
	v, ok := decode(f.Object)
	document, isObject := v.(map[string]any)
	if !ok || !isObject || hasResourceVersion(document) {
		return nil
	}
	if existing == nil {
		o := &object{Object: Object{Kind: f.kind(), Namespace: f.Namespace, Name: f.Name, JSON: "{}"}}
		c.write(o, document)
		return c.Set(o.Object)
	}
	c.write(existing, document)
	return c.send(f.key(), existing, nil)
}

// write does what the API server does to an object that it gets: a new
// resourceVersion, a new generation if the spec changed. Labels and annotations that exist keep
// their values.
func (c *Cluster) write(o *object, document map[string]any) {
	v, _ := decode(o.JSON)
	current, _ := v.(map[string]any)
	before, _ := current["metadata"].(map[string]any)
	given, _ := document["metadata"].(map[string]any)
	metadata := map[string]any{}
	maps.Copy(metadata, given)
	for name, value := range before {
		kept, ok1 := value.(map[string]any)
		added, ok2 := metadata[name].(map[string]any)
		if ok1 && ok2 {
			merged := maps.Clone(added)
			maps.Copy(merged, kept)
			value = merged
		}
		metadata[name] = value
	}
	c.version++
	metadata["resourceVersion"] = strconv.Itoa(c.version)
	generation, counted := before["generation"].(float64)
	if spec, has := document["spec"]; counted && has && !reflect.DeepEqual(spec, current["spec"]) {
		metadata["generation"] = generation + 1
	}
	written := maps.Clone(document)
	written["metadata"] = metadata
	o.JSON = string(marshal(written))
}

func hasResourceVersion(document map[string]any) bool {
	metadata, _ := document["metadata"].(map[string]any)
	_, has := metadata["resourceVersion"]
	return has
}
