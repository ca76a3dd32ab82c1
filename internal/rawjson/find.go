// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"fmt"

	"synchronizer"
)

// Members calls fn for every member of the object raw, in the document's order,
// duplicates included. Key and value point into raw. An error of fn ends it and
// is returned as it is.
//
// A value is read to its end before fn sees it. To read a whole document use a
// Cursor: Members inside Members reads the inner bytes once per level.
func Members(raw []byte, fn func(key Text, value []byte) error) error {
	c := NewCursor(raw)
	if c.Type() != Object {
		return syntaxError(c.pos, "expected an object")
	}
	if err := c.Enter(); err != nil {
		return err
	}
	for {
		key, ok, err := c.Member()
		if err != nil {
			return err
		}
		if !ok {
			return c.End()
		}
		value, err := c.Skip()
		if err != nil {
			return err
		}
		if err := fn(key, value); err != nil {
			return err
		}
	}
}

// Elements calls fn for every element of the array raw; see Members.
func Elements(raw []byte, fn func(value []byte) error) error {
	c := NewCursor(raw)
	if c.Type() != Array {
		return syntaxError(c.pos, "expected an array")
	}
	if err := c.Enter(); err != nil {
		return err
	}
	for {
		ok, err := c.Element()
		if err != nil {
			return err
		}
		if !ok {
			return c.End()
		}
		value, err := c.Skip()
		if err != nil {
			return err
		}
		if err := fn(value); err != nil {
			return err
		}
	}
}

// Get gives the bytes of the value at path, which names members of nested
// objects; nil without an error if there is none. It checks the whole document.
func Get(doc []byte, path ...string) ([]byte, error) {
	c := NewCursor(doc)
	found, err := c.get(path)
	if err != nil {
		return nil, err
	}
	return found, c.End()
}

func (c *Cursor) get(path []string) ([]byte, error) {
	if len(path) == 0 || c.Type() != Object {
		value, err := c.Skip()
		if len(path) > 0 {
			value = nil
		}
		return value, err
	}
	if err := c.Enter(); err != nil {
		return nil, err
	}
	var found []byte
	for {
		key, ok, err := c.Member()
		if !ok || err != nil {
			return found, err
		}
		if !key.Equal(path[0]) {
			if _, err := c.Skip(); err != nil {
				return nil, err
			}
			continue
		}
		// A later duplicate replaces an earlier one, even if it lacks the rest of the path.
		if found, err = c.get(path[1:]); err != nil {
			return nil, err
		}
	}
}

// text reads a string value; null reads as "".
func (c *Cursor) text(name string) (string, error) {
	switch t := c.Type(); t {
	case String, Null:
		raw, err := c.Skip()
		if t == Null || err != nil {
			return "", err
		}
		return Text(raw).String(), nil
	default:
		return "", typeError(name, "a string")
	}
}

func typeError(name, want string) error {
	return fmt.Errorf("%w object: %s is not %s", synchronizer.ErrInvalid, name, want)
}
