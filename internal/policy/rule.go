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
	keep    action = iota // look inside
	remove                // the member with its name
	replace               // the value by text, unless it is null
)

// rule says what becomes of a value. Rules form a tree along the names of
// members; it does not look into arrays.
type rule struct {
	action  action
	text    string
	members []memberRule
	// all is the rule of every member that has none of its own. A value that has
	// such a rule and is not an object becomes null.
	all *rule
}

type memberRule struct {
	name string
	rule *rule
}

// with is a rule for one member.
func with(name string, r *rule) *rule {
	return &rule{members: []memberRule{{name, r}}}
}

// common gives the rules that hold for every kind, and further ones for other
// members of the object.
func common(further ...*rule) *rule {
	gone := &rule{action: remove}
	all := with("metadata", &rule{members: []memberRule{
		{"managedFields", gone},
		{"annotations", &rule{members: []memberRule{
			{"kubectl.kubernetes.io/last-applied-configuration", gone},
			{"kubescape.io/sync-checksum", gone},
		}}},
	}})
	for _, r := range further {
		all.members = append(all.members, r.members...)
	}
	return all
}

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
