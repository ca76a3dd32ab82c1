// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	gopath "path"
	"regexp"
	"slices"
	"strings"
)

// Action is what a rule does to the values that its paths name.
type Action string

// The actions, the strongest first: of several rules for a value the strongest
// holds, whatever their order. ActionReveal is weaker than all others and stronger
// than the built-in masks only. ActionKeep removes what it does not name.
const (
	ActionDrop   Action = "drop"   // remove
	ActionMask   Action = "mask"   // replace by XXXXXX
	ActionHash   Action = "hash"   // replace by a salted SHA-256
	ActionReveal Action = "reveal" // show what a built-in rule masks
	ActionKeep   Action = "keep"   // remove the rest of the subtree
)

// Actions lists the actions.
func Actions() []string {
	return []string{string(ActionDrop), string(ActionMask), string(ActionHash), string(ActionKeep), string(ActionReveal)}
}

// MinSalt is the shortest salt in bytes. A short one can be found by trying, and
// with it what was hashed.
const MinSalt = 16

// Rule is one rule on top of the default policy.
type Rule struct {
	Match  Match
	Action Action
	Paths  []string
	// Salt is for ActionHash only. It is a secret: no message or error holds it.
	Salt []byte
}

// Match says which objects a rule is about.
type Match struct {
	Group    string // empty for the core group, * for all
	Resource string // plural name, or * for all
	// Namespaces are names, in which * stands for any text. Empty: all objects;
	// else only objects of these namespaces, cluster-scoped ones not.
	Namespaces []string
}

// Problem is a reason for which rules cannot be used.
type Problem struct {
	Rule    int    // index; -1 if all rules together are the problem
	Field   string // of the rule, such as "paths[0]"; may be empty
	Message string
}

// maxPaths bounds the paths of all rules together, and maxWork what it takes to merge
// them: each place of the graph counts nodeWork and the steps looked at for it.
const (
	maxPaths = 1000
	maxWork  = 4_000_000
	nodeWork = 50
)

// compiled is a Rule whose parts have been read.
type compiled struct {
	index      int
	group      string
	resource   string
	namespaces []string
	action     Action
	paths      []path
	salt       []byte
}

// identity names what must leave the cluster as it is, because everything behind
// tells objects apart by it.
var identity = func() (paths []path) {
	for _, text := range []string{
		"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid",
		"metadata.resourceVersion", "metadata.labels", "metadata.ownerReferences",
	} {
		var p path
		for name := range strings.SplitSeq(text, ".") {
			p = append(p, step{name: name})
		}
		paths = append(paths, p)
	}
	return paths
}()

var (
	resourceForm  = regexp.MustCompile(`^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$`)
	groupForm     = regexp.MustCompile(`^(|\*|[a-z0-9]([-.a-z0-9]*[a-z0-9])?)$`)
	namespaceForm = regexp.MustCompile(`^[a-z0-9*]([-a-z0-9*]*[a-z0-9*])?$`)
)

// compile reads a rule and reports all that is wrong with it.
func (r *Rule) compile(index int) (*compiled, []Problem) {
	c := &compiled{
		index: index, group: r.Match.Group, resource: r.Match.Resource,
		namespaces: slices.Clone(r.Match.Namespaces), action: r.Action, salt: slices.Clone(r.Salt),
	}
	var problems []Problem
	problem := func(field, format string, args ...any) {
		problems = append(problems, Problem{Rule: index, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if !groupForm.MatchString(c.group) {
		problem("match.group", `%q must be an API group in lower case, "*", or empty for the core group`, c.group)
	}
	if c.resource == "" {
		problem("match.resource", `missing: a plural name such as "pods", or "*"`)
	} else if !resourceForm.MatchString(c.resource) {
		problem("match.resource", `%q must be a plural name in lower case, such as "pods", or "*"`, c.resource)
	}
	for i, pattern := range c.namespaces {
		if !namespaceForm.MatchString(pattern) {
			problem(fmt.Sprintf("match.namespaces[%d]", i), `%q must be the name of a namespace, in which * stands for any text`, pattern)
		}
	}
	if c.action == "" {
		problem("action", "missing: use one of %s", strings.Join(Actions(), ", "))
	} else if !slices.Contains(Actions(), string(c.action)) {
		problem("action", "unknown value %q: use one of %s", c.action, strings.Join(Actions(), ", "))
	}
	switch {
	case c.action != ActionHash && len(c.salt) > 0:
		problem("salt", "only a rule that hashes has a salt")
	case c.action == ActionHash && len(c.salt) == 0:
		problem("salt", "missing: without a secret salt, what was hashed can be found by guessing")
	case c.action == ActionHash && len(c.salt) < MinSalt:
		problem("salt", "must be %d bytes or more, random ones at best", MinSalt)
	}
	if len(r.Paths) == 0 {
		problem("paths", "missing: name at least one field")
	}
	for i, text := range r.Paths {
		p, err := parsePath(text)
		if err == nil {
			err = c.admits(p)
		}
		if err != nil {
			problem(fmt.Sprintf("paths[%d]", i), "%s", err)
			continue
		}
		c.paths = append(c.paths, p)
	}
	return c, problems
}

// admits reports whether a rule of this action may name the path.
func (c *compiled) admits(p path) error {
	for _, id := range identity {
		if p.meets(id) {
			return fmt.Errorf("%s must stay: objects are told apart by it", id)
		}
	}
	if c.action != ActionKeep {
		return nil
	}
	root := subtree(p)
	for _, s := range root {
		if s.kind != oneMember {
			return fmt.Errorf("keep needs to know the subtree: name it instead of *")
		}
	}
	if len(root) == len(p) {
		return fmt.Errorf("keeps all of %s, so that nothing would be removed: name what of it stays", p)
	}
	return nil
}

// subtree is the beginning of a path that a keep-only rule is about: a member of the
// object, or one of its metadata.
func subtree(p path) path {
	if p[0].member("metadata") && len(p) > 1 {
		return p[:2]
	}
	return p[:1]
}

func (c *compiled) matchesKind(k groupResource) bool {
	return (c.group == "*" || c.group == k.group) && (c.resource == "*" || c.resource == k.resource)
}

func (c *compiled) matchesNamespace(namespace string) bool {
	if len(c.namespaces) == 0 {
		return true
	}
	return namespace != "" && slices.ContainsFunc(c.namespaces, func(pattern string) bool {
		ok, _ := gopath.Match(pattern, namespace) // compile has seen to the form
		return ok
	})
}

// named reports whether the rule names the kind itself, not by a *.
func (c *compiled) named(k groupResource) bool { return c.group == k.group && c.resource == k.resource }
