// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"synchronizer/internal/rawjson"
)

// Link is the version of the link that the result goes to.
type Link uint8

// The versions of the link. They differ in what becomes of members that v1 sets
// to null and v2 removes.
const (
	LinkV1 Link = 1
	LinkV2 Link = 2
)

// Transform applies a policy to objects. It holds no state of them, so many
// goroutines may use it.
type Transform struct {
	rules map[groupResource]*rule
	other *rule // kinds without rules of their own
}

type groupResource struct{ group, resource string }

// New is the default policy for a version of the link.
func New(link Link) *Transform {
	omit := &rule{action: remove}
	if link == LinkV1 {
		omit = &rule{action: replace, text: "null"}
	}
	conditions := with("status", with("conditions", omit))
	syft := with("spec", with("syft", &rule{members: []memberRule{
		{"descriptor", omit}, {"files", omit}, {"artifactRelationships", omit},
	}}))
	secret := &rule{members: []memberRule{
		{"data", &rule{all: &rule{action: replace, text: maskBase64}}},
		{"stringData", &rule{all: &rule{action: replace, text: mask}}},
	}}

	const storage = "spdx.softwarecomposition.kubescape.io"
	t := &Transform{other: common(), rules: map[groupResource]*rule{
		{"", "nodes"}:                  common(conditions),
		{"", "secrets"}:                common(secret),
		{storage, "sbomsyftfiltereds"}: common(syft),
	}}
	if link != LinkV1 {
		t.rules[groupResource{storage, "sbomsyfts"}] = common(syft)
	}
	return t
}

// Apply gives doc as it may leave the cluster. If no rule changes anything that
// is doc itself; else the result is written over buf, which may be nil and grows
// as needed. Group is empty for the core group, resource the plural name. A
// document that is not JSON is an error that wraps synchronizer.ErrInvalid.
//
// Applying a Transform to its own result changes nothing.
func (t *Transform) Apply(buf []byte, group, resource string, doc []byte) ([]byte, error) {
	r, ok := t.rules[groupResource{group, resource}]
	if !ok {
		r = t.other
	}
	e := editor{doc: doc, out: buf[:0], cursor: rawjson.NewCursor(doc)}
	err := e.value(r, false)
	if err == nil {
		err = e.cursor.End()
	}
	if err != nil {
		return nil, fmt.Errorf("applying the policy: %w", err)
	}
	return e.finish(), nil
}
