// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"strings"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// DocumentKey is the key of the ConfigMap's data that holds the document.
const DocumentKey = "namespaceFilters.json"

// The fields of the document. It is the one that the operator of Kubescape
// reads as well.
const (
	fieldInclude      = "includeNamespaces"
	fieldExclude      = "excludeNamespaces"
	fieldIncludeRegex = "includeNamespacesRegex"
	fieldExcludeRegex = "excludeNamespacesRegex"
)

// Lists are the rules of one document.
type Lists struct {
	IncludeNamespaces      []string // names, taken as they are
	ExcludeNamespaces      []string
	IncludeNamespacesRegex []string // RE2, matching anywhere in the name; trimmed, none blank
	ExcludeNamespacesRegex []string
}

// ParseDocument reads a filter document: one JSON object with the fields
// includeNamespaces and excludeNamespaces, and, if wanted,
// includeNamespacesRegex and excludeNamespacesRegex. Each holds an array of
// strings, or one string that is split at its commas; an empty string is an
// empty list. Nothing is trimmed but regexes, of which blank ones are left out.
//
// Everything else is an ErrInvalid that names the field where there is one:
// other fields (names are case-sensitive), a field twice, null and other types,
// a regex that does not compile, malformed JSON, anything behind the object.
func ParseDocument(text []byte) (Lists, error) {
	lists, err := readDocument(text)
	if err == nil {
		_, err = compile(lists)
	}
	if err != nil {
		return Lists{}, err
	}
	return lists, nil
}

func readDocument(text []byte) (lists Lists, err error) {
	if rawjson.TypeOf(text) != rawjson.Object {
		return lists, fmt.Errorf("%w: the document is not a JSON object", synchronizer.ErrInvalid)
	}
	fields := []struct {
		name     string
		list     *[]string
		optional bool
		seen     bool
	}{
		{name: fieldInclude, list: &lists.IncludeNamespaces},
		{name: fieldExclude, list: &lists.ExcludeNamespaces},
		{name: fieldIncludeRegex, list: &lists.IncludeNamespacesRegex, optional: true},
		{name: fieldExcludeRegex, list: &lists.ExcludeNamespacesRegex, optional: true},
	}
	// Members fails on whatever stands behind the object.
	err = rawjson.Members(text, func(key rawjson.Text, value []byte) error {
		for i := range fields {
			field := &fields[i]
			if !key.Equal(field.name) {
				continue
			}
			if field.seen {
				return fmt.Errorf("%w: field %s stands there twice", synchronizer.ErrInvalid, field.name)
			}
			field.seen = true
			list, err := readList(field.name, value)
			*field.list = list
			return err
		}
		return fmt.Errorf("%w: unknown field %.100q", synchronizer.ErrInvalid, key.String())
	})
	if err != nil {
		return lists, fmt.Errorf("reading document: %w", err)
	}
	for _, field := range fields {
		if !field.seen && !field.optional {
			return lists, fmt.Errorf("%w: field %s is missing", synchronizer.ErrInvalid, field.name)
		}
	}
	lists.IncludeNamespacesRegex = patterns(lists.IncludeNamespacesRegex)
	lists.ExcludeNamespacesRegex = patterns(lists.ExcludeNamespacesRegex)
	return lists, nil
}

func readList(field string, value []byte) ([]string, error) {
	switch rawjson.TypeOf(value) {
	case rawjson.String:
		text := rawjson.Text(value).String()
		if text == "" {
			return nil, nil
		}
		return strings.Split(text, ","), nil
	case rawjson.Array:
		var list []string
		err := rawjson.Elements(value, func(element []byte) error {
			if rawjson.TypeOf(element) != rawjson.String {
				return fmt.Errorf("%w: field %s has an element that is not a string", synchronizer.ErrInvalid, field)
			}
			list = append(list, rawjson.Text(element).String())
			return nil
		})
		return list, err
	}
	return nil, fmt.Errorf("%w: field %s is neither a string nor an array of strings", synchronizer.ErrInvalid, field)
}

// patterns trims, and leaves out what is blank then.
func patterns(list []string) []string {
	var kept []string
	for _, pattern := range list {
		if pattern = strings.TrimSpace(pattern); pattern != "" {
			kept = append(kept, pattern)
		}
	}
	return kept
}
