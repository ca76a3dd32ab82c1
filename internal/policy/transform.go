// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

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
	link  Link
	rules []*compiled
	hash  [16]byte
	kinds kindCache
}

// New is the default policy for a version of the link.
func New(link Link) *Transform {
	t, _ := Compile(link, nil)
	return t
}

// Compile makes a policy of the default one and rules on top of it. It reports
// everything that is wrong with the rules; the Transform is nil then.
func Compile(link Link, rules []Rule) (*Transform, []Problem) {
	t := &Transform{link: link}
	var problems []Problem
	paths := 0
	for i := range rules {
		c, wrong := rules[i].compile(i)
		problems = append(problems, wrong...)
		t.rules = append(t.rules, c)
		paths += len(c.paths)
	}
	switch {
	case paths > maxPaths:
		problems = append(problems, Problem{Rule: -1, Message: fmt.Sprintf("the rules have %d paths together, %d at most", paths, maxPaths)})
	case len(problems) == 0 && t.measure() > maxWork:
		problems = append(problems, Problem{Rule: -1, Message: "the rules have too many paths with * that may lead to the same place: name members instead"})
	}
	if len(problems) > 0 {
		return nil, problems
	}
	t.hash = t.fingerprint()
	return t, nil
}

// Hash names the policy: it is equal where, and as good as only where, link,
// built-in rules, rules and salts are; the order of rules does not matter. It does
// not give away a salt.
func (t *Transform) Hash() [16]byte { return t.hash }

func (t *Transform) fingerprint() (sum [16]byte) {
	lines := make([]string, len(t.rules))
	for i, c := range t.rules {
		var paths []string
		for _, p := range c.paths {
			paths = append(paths, p.String())
		}
		slices.Sort(paths)
		namespaces := slices.Sorted(slices.Values(c.namespaces))
		salt := ""
		if c.action == ActionHash {
			mac := hmac.New(sha256.New, c.salt)
			mac.Write([]byte("synchronizer policy"))
			salt = fmt.Sprintf("%x", mac.Sum(nil))
		}
		lines[i] = fmt.Sprintf("%q %q %q %q %q %s\n", c.group, c.resource, slices.Compact(namespaces), c.action, slices.Compact(paths), salt)
	}
	slices.Sort(lines)
	whole := sha256.Sum256(fmt.Appendf(nil, "policy %d link %d\n%s", version, t.link, strings.Join(slices.Compact(lines), "")))
	copy(sum[:], whole[:])
	return sum
}

// measure counts the work that the rules of one object can make at most.
func (t *Transform) measure() int {
	if len(t.rules) == 0 {
		return 0
	}
	s := state{edits: builtin(t.link, secrets)}
	for _, c := range t.rules {
		s.add(c, groupResource{c.group, c.resource})
	}
	b := builder{secret: true, measuring: true}
	b.build(s)
	return b.work
}

// graph merges the default policy for a kind with rules.
func (t *Transform) graph(k groupResource, rules []*compiled) *rule {
	s := state{edits: builtin(t.link, k)}
	for _, c := range rules {
		s.add(c, k)
	}
	b := builder{secret: k == secrets}
	return b.build(s)
}

// Apply gives doc as it may leave the cluster. If no rule changes anything that
// is doc itself; else the result is written over buf, which may be nil and grows
// as needed. Group is empty for the core group, resource the plural name,
// namespace empty for a cluster-scoped object. A document that is not JSON is an
// error that wraps synchronizer.ErrInvalid.
//
// Applying a Transform without ActionHash to its own result changes nothing.
func (t *Transform) Apply(buf []byte, group, resource, namespace string, doc []byte) ([]byte, error) {
	r := t.rulesFor(groupResource{group, resource}, namespace)
	e := editor{doc: doc, out: buf[:0], cursor: rawjson.NewCursor(doc)}
	err := e.value(r, elsewhere)
	if err == nil {
		err = e.cursor.End()
	}
	if err != nil {
		return nil, fmt.Errorf("applying the policy: %w", err)
	}
	return e.finish(), nil
}
