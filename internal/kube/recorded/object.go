// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bytes"
	"fmt"
	"strconv"

	"synchronizer/internal/rawjson"
)

// changeAnnotation counts the changes that Play has made to an object.
const changeAnnotation = "benchmark.synchronizer/change"

// typed is an item as GET and WATCH give it.
func (s *Set) typed(dst, item []byte) []byte {
	if s.ItemsFirst {
		return append(dst, item...)
	}
	dst = fmt.Appendf(dst, `{"kind":%q,"apiVersion":%q,`, s.ObjectKind, s.Kind.GroupVersion())
	return append(dst, item[1:]...)
}

// changed is item with another resourceVersion and the change counted in an annotation.
func changed(item []byte, version int64, change int) ([]byte, error) {
	var out []byte
	c := rawjson.NewCursor(item)
	err := members(&c, func(key rawjson.Text) error {
		if !key.Equal("metadata") {
			_, err := c.Skip()
			return err
		}
		start := c.Offset()
		raw, err := c.Skip()
		if err != nil {
			return err
		}
		metadata, err := changedMetadata(raw, version, change)
		if err != nil {
			return err
		}
		out = make([]byte, 0, len(item)+len(metadata)-len(raw))
		out = append(out, item[:start]...)
		out = append(out, metadata...)
		out = append(out, item[start+len(raw):]...)
		return nil
	})
	return out, err
}

func changedMetadata(raw []byte, version int64, change int) ([]byte, error) {
	out, annotated := []byte{'{'}, false
	note := fmt.Sprintf("%q:%q", changeAnnotation, strconv.Itoa(change))
	err := rawjson.Members(raw, func(key rawjson.Text, value []byte) error {
		if key.Equal("managedFields") && !annotated {
			out = fmt.Appendf(out, `"annotations":{%s},`, note)
			annotated = true
		}
		out = append(append(out, key...), ':')
		switch {
		case key.Equal("resourceVersion"):
			out = fmt.Appendf(out, `"%d"`, version)
		case key.Equal("annotations"):
			annotated = true
			out = append(append(out, '{'), note...)
			err := rawjson.Members(value, func(key rawjson.Text, value []byte) error {
				if !key.Equal(changeAnnotation) {
					out = append(append(append(append(out, ','), key...), ':'), value...)
				}
				return nil
			})
			if err != nil {
				return err
			}
			out = append(out, '}')
		default:
			out = append(out, value...)
		}
		out = append(out, ',')
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !annotated {
		out = fmt.Appendf(out, `"annotations":{%s}`, note)
	}
	return append(bytes.TrimSuffix(out, []byte(",")), '}'), nil
}

func members(c *rawjson.Cursor, fn func(rawjson.Text) error) error {
	if err := c.Enter(); err != nil {
		return err
	}
	for {
		key, ok, err := c.Member()
		if err != nil || !ok {
			return err
		}
		if err := fn(key); err != nil {
			return err
		}
	}
}
