// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"slices"

	"synchronizer/internal/policy"
	"synchronizer/internal/rawjson"
)

// newObject gives what is sent to create the desired object: without status,
// without what the API server owns, and without owners. Their uids are those of
// one cluster at one time, and the garbage collector deletes an object whose
// owners do not exist. The name is the one that the message gave.
func (m *merger) newObject(desired *value, name string) []byte {
	var parts []part
	for _, d := range desired.members {
		switch {
		case d.name == "metadata" || d.name == "status" || d.absent():
		case d.name == "apiVersion" || d.name == "kind":
			parts = append(parts, part{d.key, d.raw})
		default:
			parts = append(parts, part{d.key, m.emit(policy.JoinPath("", d.name), d.value)})
		}
	}
	metadata := []part{{rawjson.Text(`"name"`), rawjson.AppendQuote(nil, []byte(name))}}
	if desired.get("metadata").is(rawjson.Object) {
		for _, d := range desired.get("metadata").members {
			switch {
			case d.absent() || d.name == "name" || d.name == "ownerReferences" || slices.Contains(owned, d.name):
			case d.name == "annotations" && d.is(rawjson.Object):
				raw, _ := m.add(d.name, &value{raw: []byte("{}"), typ: rawjson.Object}, nil, d.value)
				metadata = append(metadata, part{d.key, raw})
			default:
				metadata = append(metadata, part{d.key, m.emit(policy.JoinPath("metadata", d.name), d.value)})
			}
		}
	}
	return join(append(parts, part{rawjson.Text(`"metadata"`), join(metadata)}))
}
