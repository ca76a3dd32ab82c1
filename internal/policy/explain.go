// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"fmt"

	"synchronizer"
)

// Found says how many values of an object a path of a rule leads to.
type Found struct {
	Path   string
	Values int
}

// Holding is a rule that is about an object.
type Holding struct {
	Rule   int // index among the rules of the Transform
	Action Action
	Paths  []Found
}

// Explain tells which rules are about an object and what they find in it. It decodes
// the object and is meant for people who try rules. Errors are those of Apply.
func (t *Transform) Explain(group, resource, namespace string, doc []byte) ([]Holding, error) {
	decoder := json.NewDecoder(bytes.NewReader(doc))
	decoder.UseNumber()
	var object any
	if err := decoder.Decode(&object); err != nil {
		return nil, fmt.Errorf("reading the object: %w: %w", synchronizer.ErrInvalid, err)
	}
	k := groupResource{group, resource}
	var holding []Holding
	for _, c := range t.rules {
		if !c.matchesKind(k) || !c.matchesNamespace(namespace) || c.action == ActionReveal && k == secrets && !c.named(k) {
			continue
		}
		h := Holding{Rule: c.index, Action: c.action}
		for _, p := range c.paths {
			h.Paths = append(h.Paths, Found{p.String(), count(object, p)})
		}
		holding = append(holding, h)
	}
	return holding, nil
}

// count gives the number of places that p leads to.
func count(value any, p path) (n int) {
	if len(p) == 0 {
		return 1
	}
	switch v := value.(type) {
	case []any:
		if p[0].kind == anyElement {
			for _, element := range v {
				n += count(element, p[1:])
			}
		}
	case map[string]any:
		for name, member := range v {
			if p[0].member(name) {
				n += count(member, p[1:])
			}
		}
	}
	return n
}
