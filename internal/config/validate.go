// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Strategies of a kind.
const (
	StrategyCopy  = "copy"
	StrategyPatch = "patch"
)

// Values of backend.messageQueue.type.
const (
	QueueEmbedded = "embedded"
	QueuePulsar   = "pulsar"
	QueueKafka    = "kafka"
	QueueNATS     = "nats"
)

// AccessKeysStore is the value of backend.accessKeys that asks the store.
const AccessKeysStore = "store"

const (
	noEffect     = "accepted, has no effect yet in this version"
	notSupported = "not supported by this version"
	neverEffect  = "accepted for the sake of existing files, ignored"
)

// Validate returns all problems that keep the role from using the configuration, as
// [Problems], or nil. Sections that the role does not read are not checked.
func (c *Config) Validate(role Role) error {
	problems, _ := c.check(role, true)
	return problems.orNil()
}

// Warnings returns the notices about keys that are set and have no effect.
func (c *Config) Warnings(role Role) Warnings {
	_, warnings := c.check(role, true)
	return warnings
}

// check walks the sections of the role. complete is false for a file that is looked at alone:
// then values that other files or the environment may give are not missed.
func (c *Config) check(role Role, complete bool) (Problems, Warnings) {
	k := &checker{config: c, complete: complete}
	defaults := reflect.ValueOf(Default()).Elem()
	for _, section := range role.sections() {
		n := tree.child(section)
		k.visit(n, fieldOf(reflect.ValueOf(c).Elem(), n), fieldOf(defaults, n), n.Path, false)
	}
	switch role {
	case RoleClient:
		k.client()
	default:
		k.server(role)
	}
	return k.problems, k.warnings
}

type checker struct {
	config   *Config
	complete bool
	problems Problems
	warnings Warnings
}

func (k *checker) problem(path, format string, args ...any) {
	k.problems = append(k.problems, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (k *checker) warn(path, format string, args ...any) {
	k.warnings = append(k.warnings, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// visit applies what the tables declare. quiet: an outer section has already given the notice.
func (k *checker) visit(n *node, v, defaults reflect.Value, path string, quiet bool) {
	set := differs(v, defaults)
	if set && n.Status == Ignored {
		k.warn(path, neverEffect)
	}
	if set && !quiet {
		switch n.Status {
		case Planned:
			k.warn(path, noEffect)
			quiet = true
		case Unsupported:
			k.problem(path, notSupported)
			quiet = true
		}
	}
	if n.optional {
		if v.IsNil() {
			return
		}
		defaults, v = allocate(n.typ).Elem(), v.Elem()
	}
	switch {
	case n.Section:
		for _, child := range n.children {
			k.visit(child, fieldOf(v, child), fieldOf(defaults, child), join(path, child.key), quiet)
		}
	case isSectionList(n.typ):
		zero := reflect.Zero(n.typ.Elem())
		for i := range v.Len() {
			for _, child := range n.children {
				k.visit(child, fieldOf(v.Index(i), child), fieldOf(zero, child), fmt.Sprintf("%s[%d].%s", path, i, child.key), quiet)
			}
		}
	default:
		k.choice(n, v, path)
		k.bound(n, v, path)
	}
}

func (k *checker) choice(n *node, v reflect.Value, path string) {
	if n.Enum == nil {
		return
	}
	text := v.String()
	known := slices.DeleteFunc(slices.Clone(n.Enum), func(s string) bool { return s == "" })
	switch {
	case slices.Contains(n.Lacking, text):
		supported := slices.DeleteFunc(known, func(s string) bool { return slices.Contains(n.Lacking, s) })
		k.problem(path, "%q is %s: use %s", text, notSupported, oneOf(supported))
	case !slices.Contains(n.Enum, text):
		k.problem(path, "unknown value %q: use %s", text, oneOf(known))
	}
}

func (k *checker) bound(n *node, v reflect.Value, path string) {
	if n.Bound == Unbounded {
		return
	}
	number := 0.0
	if v.CanInt() {
		number = float64(v.Int())
	} else if v.CanFloat() {
		number = v.Float()
	}
	switch {
	case n.Bound == Positive && number < 1:
		k.problem(path, "must be 1 or more")
	case n.Bound == NonNegative && number < 0:
		k.problem(path, "must not be negative")
	case n.Bound == Port && (number < 0 || number > maxPort):
		k.problem(path, "must be a port, 0 to %d", maxPort)
	}
}

func oneOf(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " or " + texts[last]
}

// differs compares a value with its default; an empty list or map is the same as none.
func differs(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Slice, reflect.Map:
		if a.Len() == 0 && b.Len() == 0 {
			return false
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if differs(a.Field(i), b.Field(i)) {
				return true
			}
		}
		return false
	}
	return !reflect.DeepEqual(a.Interface(), b.Interface())
}
