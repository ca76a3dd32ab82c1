// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"synchronizer/internal/rawjson"
)

// AddTypeMeta gives doc with the members kind and apiVersion, which the items of
// a LIST of a built-in kind lack. They are put in front, in the order in which
// the API server writes them, so that LIST, WATCH and GET give the same bytes. A
// member that is there, whatever its value, stays as it is. If both are there the
// result is doc itself; else it is written over buf, which may be nil.
func AddTypeMeta(buf, doc []byte, apiVersion, kind string) ([]byte, error) {
	c := rawjson.NewCursor(doc)
	fail := func(err error) ([]byte, error) {
		return nil, fmt.Errorf("adding kind and apiVersion: %w", err)
	}
	if err := c.Enter(); err != nil {
		return fail(err)
	}
	start := c.Offset()
	if doc[start-1] != '{' {
		return fail(rawjson.Members(doc, nil)) // says that it is not an object
	}
	var hasKind, hasVersion, hasAny bool
	for {
		key, ok, err := c.Member()
		if err != nil {
			return fail(err)
		}
		if !ok {
			break
		}
		hasAny = true
		hasKind = hasKind || key.Equal("kind")
		hasVersion = hasVersion || key.Equal("apiVersion")
		if _, err := c.Skip(); err != nil {
			return fail(err)
		}
	}
	if err := c.End(); err != nil {
		return fail(err)
	}
	if hasKind && hasVersion {
		return doc, nil
	}
	out := append(buf[:0], doc[:start]...)
	comma := false
	add := func(name, value string) {
		if comma {
			out = append(out, ',')
		}
		comma = true
		out = append(append(out, name...), ':')
		out = rawjson.AppendQuote(out, []byte(value))
	}
	if !hasKind {
		add(`"kind"`, kind)
	}
	if !hasVersion {
		add(`"apiVersion"`, apiVersion)
	}
	if hasAny {
		out = append(out, ',')
	}
	return append(out, doc[start:]...), nil
}
