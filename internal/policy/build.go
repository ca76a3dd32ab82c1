// SPDX-License-Identifier: Apache-2.0

package policy

import "slices"

// rank orders what may happen to one value; the highest holds.
type rank uint8

const (
	rankBuiltinMask rank = iota
	rankReveal
	rankHash
	rankMask
	rankNull // what link v1 sets to null and v2 removes
	rankDrop
)

// edit is the rest of a path, and what becomes of the values that it leads to.
type edit struct {
	path path
	rank rank
	salt []byte
	// strict: where the last step of the path finds no object, there is null.
	strict bool
}

// keeping is the rest of one keep-only rule on one subtree.
type keeping struct {
	root  path   // to the subtree
	paths []path // what stays, from where root ends
}

// state is what the rules of an object still want at one of its places.
type state struct {
	edits    []edit
	keeps    []keeping
	revealed bool // by a rule for this value or one around it
	depth    int
	base64   bool // values here are text in base64
}

// builder merges paths into one graph, so that an object is read once however many
// rules there are. For every place it follows all paths that may lead there, as one
// makes a deterministic automaton.
type builder struct {
	secret bool // the kind is a Secret
	work   int  // done so far, in steps looked at; above maxWork everything is removed
	// measuring counts the work that any part of the rules could need, so it goes on
	// where a stronger rule ends the others.
	measuring bool
}

// build makes the rule for a place.
func (b *builder) build(s state) *rule {
	names := s.names()
	if b.work += nodeWork + (len(names)+2)*s.size(); b.work > maxWork {
		return gone
	}
	var highest *edit
	for i := range s.edits {
		if e := &s.edits[i]; len(e.path) == 0 {
			s.revealed = s.revealed || e.rank == rankReveal
			if highest == nil || e.rank > highest.rank || e.rank == rankHash && e.rank == highest.rank && string(e.salt) < string(highest.salt) {
				highest = e
			}
		}
	}
	r := &rule{reveal: s.revealed}
	if highest != nil && s.end(r, highest) && !b.measuring {
		return r
	}
	r.only, r.strict = s.shape(), s.strict()
	switch {
	case !r.strict:
	case r.only == arrays:
		r.only = nothing
	case r.only == objects|arrays:
		r.only = objects
	}
	for _, name := range names {
		next, inner := s.child(func(t step) bool { return t.member(name) })
		next.base64 = next.base64 || b.secret && s.depth == 0 && name == "data"
		r.members = append(r.members, memberRule{name, b.inner(next, inner)})
	}
	r.all = b.inner(s.child(func(t step) bool { return t.kind == anyMember }))
	r.elements = b.inner(s.child(func(t step) bool { return t.kind == anyElement }))
	return r
}

// end makes r the rule for a value that a path ends at; false if one must look inside.
func (s *state) end(r *rule, e *edit) bool {
	switch e.rank {
	case rankDrop:
		r.action = remove
		return true
	case rankNull:
		r.action, r.text = replace, "null"
		return true
	case rankHash:
		r.action, r.salt, r.base64 = hash, e.salt, s.base64
		return true
	case rankReveal:
		return false
	case rankBuiltinMask:
		if s.revealed {
			return false
		}
	}
	r.action, r.text = replace, mask
	if s.base64 {
		r.text = maskBase64
	}
	return true
}

// shape says which values may stand here if only the kept paths may stay.
func (s *state) shape() shapes {
	only := anything
	for _, k := range s.keeps {
		if len(k.root) > 0 {
			continue
		}
		var wanted shapes
		for _, p := range k.paths {
			if p[0].kind == anyElement {
				wanted |= arrays
			} else {
				wanted |= objects
			}
		}
		if only != anything {
			wanted &= only
		}
		if only = wanted; only == 0 {
			return nothing
		}
	}
	return only
}

// strict reports whether only an object may stand here.
func (s *state) strict() bool {
	return !s.revealed && slices.ContainsFunc(s.edits, func(e edit) bool { return e.strict && len(e.path) == 1 })
}

// size is the number of paths that are followed.
func (s *state) size() int {
	n := len(s.edits)
	for _, k := range s.keeps {
		n += len(k.paths)
	}
	return n
}

// names are the names that paths go on with, sorted.
func (s *state) names() []string {
	var names []string
	add := func(p path) {
		if len(p) > 0 && p[0].kind == oneMember {
			names = append(names, p[0].name)
		}
	}
	for i := range s.edits {
		add(s.edits[i].path)
	}
	for _, k := range s.keeps {
		add(k.root)
		if len(k.root) == 0 {
			for _, p := range k.paths {
				add(p)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// child is the state one step further; stays is false if a keep-only rule names
// nothing there.
func (s *state) child(leads func(step) bool) (next state, stays bool) {
	next, stays = state{revealed: s.revealed, depth: s.depth + 1, base64: s.base64}, true
	for _, e := range s.edits {
		if len(e.path) > 0 && leads(e.path[0]) {
			e.path = e.path[1:]
			next.edits = append(next.edits, e)
		}
	}
	for _, k := range s.keeps {
		if len(k.root) > 0 {
			if leads(k.root[0]) {
				next.keeps = append(next.keeps, keeping{root: k.root[1:], paths: k.paths})
			}
			continue
		}
		rest := keeping{}
		for _, p := range k.paths {
			if leads(p[0]) {
				rest.paths = append(rest.paths, p[1:])
			}
		}
		switch {
		case len(rest.paths) == 0:
			stays = false
		case !slices.ContainsFunc(rest.paths, func(p path) bool { return len(p) == 0 }):
			next.keeps = append(next.keeps, rest)
		}
	}
	return next, stays
}

// inner is build for the result of child.
func (b *builder) inner(next state, stays bool) *rule {
	switch {
	case !stays && !b.measuring:
		return gone
	case len(next.edits) > 0 || len(next.keeps) > 0:
		return b.build(next)
	case next.revealed:
		return open
	default:
		return nil
	}
}
