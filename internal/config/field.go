// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Origin says where a key comes from.
type Origin int

const (
	// InField marks a key that exists in the field: its name, type and meaning must stay.
	InField Origin = iota
	// Ours marks a key that only this project has.
	Ours
)

// Status says what this version does with a key.
type Status int

const (
	// Works: the key has its effect.
	Works Status = iota
	// Planned: the key is accepted and has no effect yet; setting it gives a warning.
	Planned
	// Unsupported: ignoring the key would be unsafe, so setting it is a problem.
	Unsupported
	// Ignored: the key is accepted for the sake of existing files and will never have an effect.
	Ignored
)

// String names the status as the JSON schema and the reference page do.
func (s Status) String() string {
	return [...]string{"works", "planned", "unsupported", "ignored"}[s]
}

// Bound is the range that a number must be in.
type Bound int

const (
	// Unbounded allows every number of the type.
	Unbounded Bound = iota
	// NonNegative allows 0 and more.
	NonNegative
	// Positive allows 1 and more.
	Positive
	// Port allows 0 (any free port) to 65535.
	Port
)

const maxPort = 65535

// Field declares one key or section.
type Field struct {
	// Path is the key with [] for the items of a list: "inCluster.resources[].group".
	Path   string
	Origin Origin
	Status Status
	// Doc is what the key means, as Markdown.
	Doc string
	// Example is a value as JSON, "" when the default says enough.
	Example string
	// Enum lists the allowed texts, nil when any will do.
	Enum []string
	// Lacking lists those of Enum that this version does not support.
	Lacking []string
	Bound   Bound

	// The rest is derived from the struct tree; the tables leave it out.

	// Type is how the reference page calls the type: "text", "number", "list of text", …
	Type string
	// Default is the default value as JSON, "" for sections and for keys without a value.
	Default string
	// Secret marks a value that is never printed.
	Secret bool
	// Section marks a key that holds other keys.
	Section bool
	// Effective is Status, or that of the outermost section that has one.
	Effective Status
	// Env is the environment variable that sets the key, "" when it has none.
	Env string
}

// node is one place of the struct tree.
type node struct {
	Field
	key string
	typ reflect.Type // without the pointer of an optional section
	// optional: the struct holds a pointer, nil when the file has no value.
	optional bool
	// children are the keys of a section, or those of the items of a list of sections.
	children []*node
}

// tree describes Config; it never changes.
var tree = buildTree()

func buildTree() *node {
	declared := make(map[string]Field)
	for _, table := range [][]Field{clientFields, serverFields} {
		for _, field := range table {
			declared[field.Path] = field
		}
	}
	root := &node{typ: reflect.TypeFor[Config]()}
	root.Section = true
	root.children = childNodes(root.typ, "", reflect.ValueOf(Default()).Elem(), declared)
	inherit(root)
	return root
}

// inherit hands the status of a section down to its keys; a key that is ignored for good stays so.
func inherit(n *node) {
	for _, c := range n.children {
		c.Effective = c.Status
		if n.Effective != Works && c.Status != Ignored {
			c.Effective = n.Effective
		}
		inherit(c)
	}
}

func childNodes(typ reflect.Type, prefix string, defaults reflect.Value, declared map[string]Field) []*node {
	var nodes []*node
	for i := range typ.NumField() {
		key, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if key == "-" {
			continue
		}
		value := defaults.Field(i)
		n := &node{Field: declared[prefix+key], key: key, typ: value.Type()}
		n.Path = prefix + key
		if n.typ.Kind() == reflect.Pointer {
			n.optional, n.typ = true, n.typ.Elem()
			value = allocate(n.typ).Elem()
		}
		switch {
		case n.typ.Kind() == reflect.Struct:
			n.Section = true
			n.children = childNodes(n.typ, n.Path+".", value, declared)
		case isSectionList(n.typ):
			n.children = childNodes(n.typ.Elem(), n.Path+"[].", reflect.Zero(n.typ.Elem()), declared)
		case !n.optional && n.typ != typePresence:
			n.Default = marshal(value.Interface())
		}
		n.Type, n.Secret = typeName(n), n.typ == typeSecret
		if n.Origin == Ours && !n.Section && n.typ != typePresence && !strings.Contains(n.Path, "[]") {
			n.Env = envPrefix + strings.ToUpper(strings.ReplaceAll(n.Path, ".", "_"))
		}
		nodes = append(nodes, n)
	}
	return nodes
}

var (
	typeSecret   = reflect.TypeFor[Secret]()
	typePresence = reflect.TypeFor[Presence]()
	typeDuration = reflect.TypeFor[Duration]()
	typeSeconds  = reflect.TypeFor[Seconds]()
)

func isSectionList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// allocate makes an optional value and gives it its defaults, if its type has any.
func allocate(t reflect.Type) reflect.Value {
	value := reflect.New(t)
	if section, ok := value.Interface().(interface{ setDefaults() }); ok {
		section.setDefaults()
	}
	return value
}

func marshal(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

func typeName(n *node) string {
	switch {
	case n.Section:
		return "section"
	case isSectionList(n.typ):
		return "list of sections"
	case n.typ == typePresence:
		return "anything"
	case n.typ == typeDuration:
		return "duration"
	case n.typ == typeSeconds:
		return "seconds"
	}
	switch n.typ.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "list of text"
	case reflect.Map:
		return "map of text"
	case reflect.String:
		return "text"
	default:
		return "number"
	}
}

// child finds a key as files write it, in any case.
func (n *node) child(key string) *node {
	for _, c := range n.children {
		if strings.EqualFold(c.key, key) {
			return c
		}
	}
	return nil
}

// Fields returns every key and section in the order of the struct tree, sections before their
// keys.
func Fields() []Field {
	var fields []Field
	var add func(n *node)
	add = func(n *node) {
		for _, c := range n.children {
			fields = append(fields, c.Field)
			add(c)
		}
	}
	add(tree)
	return fields
}
