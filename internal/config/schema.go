// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// ValidateFile checks one file without the environment and the files beside it: what these may
// give (account, access key, cluster name, address) is a warning when it is not in the file.
func ValidateFile(name string, role Role) (Warnings, error) {
	_, warnings, err := ReadFile(name, role)
	return warnings, err
}

// ReadFile is ValidateFile and gives the configuration, in which what the environment and
// other files may give can be missing.
func ReadFile(name string, role Role) (*Config, Warnings, error) {
	root, err := readObject(name)
	if err != nil {
		return nil, nil, Problems{*fileProblem(name, name, err)}
	}
	b := &binder{file: name, lines: map[string]int{}}
	c := Default()
	c.Process.File = name
	b.section(tree, reflect.ValueOf(c).Elem(), root, "")
	return b.finish(c, role, false)
}

// RoleOfFile guesses whether a file is a client's or a server's by the sections that it has.
func RoleOfFile(name string) (Role, error) {
	root, err := readObject(name)
	if err != nil {
		return 0, Problems{*fileProblem(name, name, err)}
	}
	if root.member("inCluster") != nil || root.member("httpEndpoint") != nil {
		return RoleClient, nil
	}
	return RoleServer, nil
}

// DefaultsJSON returns the defaults of the sections that a role reads, as a file could have them.
func DefaultsJSON(role Role) ([]byte, error) {
	whole, err := json.Marshal(Default())
	if err != nil {
		return nil, fmt.Errorf("marshalling the defaults: %w", err)
	}
	var sections map[string]json.RawMessage
	if err := json.Unmarshal(whole, &sections); err != nil {
		return nil, fmt.Errorf("reading back the defaults: %w", err)
	}
	for section := range sections {
		if !slices.Contains(role.sections(), section) {
			delete(sections, section)
		}
	}
	return indent(sections)
}

// SchemaJSON returns the JSON schema (draft 2020-12) of the files of client and server. It
// describes the exact spelling; the reader takes keys in any case.
func SchemaJSON() ([]byte, error) {
	schema := schemaOf(tree)
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Synchronizer configuration"
	schema["description"] = "config.json of client and server. Keys are case-insensitive; unknown keys give a warning."
	return indent(schema)
}

func indent(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("marshalling: %w", err)
	}
	return append(text, '\n'), nil
}

func schemaOf(n *node) map[string]any {
	s := map[string]any{}
	describe(n, s)
	switch {
	case n.typ == typePresence:
	case n.Section:
		s["type"] = "object"
		s["properties"] = propertiesOf(n)
	case isSectionList(n.typ):
		s["type"] = "array"
		s["items"] = map[string]any{"type": "object", "properties": propertiesOf(n)}
	case n.Enum != nil:
		s["enum"] = n.Enum
	default:
		scalarSchema(n, s)
	}
	if n.optional && !n.Section {
		s["type"] = append(s["type"].([]string), "null")
	}
	return s
}

func propertiesOf(n *node) map[string]any {
	properties := make(map[string]any, len(n.children))
	for _, child := range n.children {
		properties[child.key] = schemaOf(child)
	}
	return properties
}

// describe sets what does not depend on the type.
func describe(n *node, s map[string]any) {
	if n.Doc != "" {
		s["description"] = n.Doc
	}
	if n.Default != "" {
		s["default"] = json.RawMessage(n.Default)
	}
	if n.Example != "" {
		s["examples"] = []json.RawMessage{json.RawMessage(n.Example)}
	}
	if n.Secret {
		s["writeOnly"] = true
	}
	if n.Status == Ignored {
		s["deprecated"] = true
	}
	if n.Effective != Works {
		s["x-status"] = n.Effective.String()
	}
	if len(n.Lacking) > 0 {
		s["x-lacking"] = n.Lacking
	}
}

// scalarSchema allows the forms that the reader converts.
func scalarSchema(n *node, s map[string]any) {
	switch {
	case n.typ == typeDuration:
		s["type"] = []string{"string", "number"}
		return
	case n.typ.Kind() == reflect.Slice:
		s["type"] = []string{"array", "string"}
		s["items"] = map[string]any{"type": []string{"string", "number", "boolean"}}
		return
	case n.typ.Kind() == reflect.Map:
		s["type"] = "object"
		s["additionalProperties"] = map[string]any{"type": []string{"string", "number", "boolean"}}
		return
	case n.typ.Kind() == reflect.Bool:
		s["type"] = []string{"boolean", "string"}
		return
	case n.typ.Kind() == reflect.String:
		s["type"] = []string{"string", "number"}
		return
	case n.typ.Kind() == reflect.Float64:
		s["type"] = []string{"number", "string"}
	default:
		s["type"] = []string{"integer", "string"}
	}
	switch n.Bound {
	case Positive:
		s["minimum"] = 1
	case NonNegative:
		s["minimum"] = 0
	case Port:
		s["minimum"], s["maximum"] = 0, maxPort
	}
}
