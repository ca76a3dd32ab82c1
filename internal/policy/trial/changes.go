// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"synchronizer/internal/policy"
)

// Change is one place in which an object as it leaves the cluster differs from what it
// was. It does not hold what was there.
type Change struct {
	Path    string
	Removed bool
	Value   string // as JSON, what is there now unless Removed
}

// String is "- path" for what was removed and "~ path = value" for what was replaced.
func (c Change) String() string {
	if c.Removed {
		return "- " + c.Path
	}
	return "~ " + c.Path + " = " + c.Value
}

// Changes compares an object with what a policy made of it, both as JSON.
func Changes(before, after []byte) ([]Change, error) {
	old, err := decode(before)
	if err != nil {
		return nil, err
	}
	now, err := decode(after)
	if err != nil {
		return nil, err
	}
	return compare(nil, "", old, now), nil
}

func decode(doc []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(doc))
	decoder.UseNumber()
	if err = decoder.Decode(&value); err != nil {
		err = fmt.Errorf("reading the object: %w", err)
	}
	return value, err
}

func compare(changes []Change, path string, old, now any) []Change {
	switch was := old.(type) {
	case map[string]any:
		is, ok := now.(map[string]any)
		if !ok {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(was)) {
			inner := policy.JoinPath(path, name)
			value, stays := is[name]
			if !stays {
				changes = append(changes, Change{Path: inner, Removed: true})
				continue
			}
			changes = compare(changes, inner, was[name], value)
		}
		return changes
	case []any:
		is, ok := now.([]any)
		if !ok {
			break
		}
		if len(is) != len(was) { // a policy removes all elements or none
			return append(changes, Change{Path: path + "[*]", Removed: true})
		}
		for i := range was {
			changes = compare(changes, fmt.Sprintf("%s[%d]", path, i), was[i], is[i])
		}
		return changes
	}
	if !reflect.DeepEqual(old, now) {
		text, _ := json.Marshal(now) // it has just been decoded
		changes = append(changes, Change{Path: path, Value: string(text)})
	}
	return changes
}
