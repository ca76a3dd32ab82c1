// SPDX-License-Identifier: Apache-2.0

package policy

import "synchronizer/internal/rawjson"

// What masked values become; maskBase64 is base64 of the same letters.
const (
	mask       = `"XXXXXX"`
	maskBase64 = `"WFhYWFhY"`
)

type action uint8

const (
	inside  action = iota // look inside
	remove                // with its name; of an array: all elements
	replace               // by text, unless it is null
	hash                  // replace by its hash, unless it is null
)

// shapes is a set of types of values that hold others.
type shapes uint8

const (
	anything shapes = 0 // no restriction
	objects  shapes = 1
	arrays   shapes = 2
	nothing  shapes = 4
)

// rule says what becomes of a value. Rules form a graph along the steps of paths.
type rule struct {
	action  action
	text    string // for replace
	salt    []byte // for hash
	base64  bool   // for hash: the result is encoded once more
	members []memberRule
	all     *rule // members that have no rule of their own
	// elements is the rule of every element of an array.
	elements *rule
	// only: a value of another shape is removed, or becomes null in an array.
	only shapes
	// strict: a value that is not an object becomes null.
	strict bool
	// reveal: the built-in rule for environment values does not hold here.
	reveal bool
}

type memberRule struct {
	name string
	rule *rule
}

var (
	gone = &rule{action: remove}
	// open reveals everything inside a value.
	open = func() *rule {
		r := &rule{reveal: true}
		r.all, r.elements = r, r
		return r
	}()
	// maskValue is the rule for the values of environment variables.
	maskValue = &rule{action: replace, text: mask}
)

// member gives the rule for a member; nil if there is none.
func (r *rule) member(key rawjson.Text) *rule {
	if r == nil {
		return nil
	}
	for i := range r.members {
		if key.Equal(r.members[i].name) {
			return r.members[i].rule
		}
	}
	return r.all
}

// removes reports whether a member whose value has type t goes with its name.
func (r *rule) removes(t rawjson.Type) bool {
	return r.action == remove || !r.fits(t)
}

// fits reports whether a value of type t is of the shape that the rule asks for.
func (r *rule) fits(t rawjson.Type) bool {
	return r.only == anything || t == rawjson.Object && r.only&objects != 0 || t == rawjson.Array && r.only&arrays != 0
}
