// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
)

// maxFileBytes bounds every file that the package reads; a configuration is far smaller.
const maxFileBytes = 4 << 20

// value is one JSON value with the line on which it begins.
type value struct {
	// kind is '{', '[', 's' (text), 'n' (number), 'b' (true or false) or '0' (null).
	kind    byte
	line    int
	text    string // of a text, number, true or false
	members []member
	items   []*value
}

type member struct {
	key   string
	line  int
	value *value
}

// member finds a key in any case; of several the last counts, as JSON readers have it.
func (v *value) member(key string) *value {
	var found *value
	if v == nil || v.kind != '{' {
		return nil
	}
	for _, m := range v.members {
		if equalKey(m.key, key) {
			found = m.value
		}
	}
	return found
}

// empty reports whether the value says nothing: null, "", {} or [].
func (v *value) empty() bool {
	switch v.kind {
	case '0':
		return true
	case 's':
		return v.text == ""
	case '{':
		return len(v.members) == 0
	case '[':
		return len(v.items) == 0
	default:
		return false
	}
}

// errTooBig says that a file is no configuration.
var errTooBig = fmt.Errorf("is larger than %d bytes", maxFileBytes)

// readFile reads a file of bounded size.
func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, errTooBig
	}
	return data, nil
}

// syntaxError is a fault of the JSON text itself.
type syntaxError struct {
	line    int
	message string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.message) }

// parse reads one JSON object and nothing behind it.
func parse(data []byte) (*value, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors write a byte order mark
	lines := newLineIndex(data)
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, &syntaxError{line: 1, message: "the file is empty: write at least {}"}
	}
	// The whole text is checked first: the token reader below would stop at the end of the
	// object and is lenient in places.
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, &syntaxError{line: lines.at(syntax.Offset), message: "malformed JSON: " + syntax.Error()}
		}
		return nil, &syntaxError{line: 1, message: "malformed JSON"}
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	root, err := parseValue(decoder, lines)
	if err != nil {
		return nil, &syntaxError{line: lines.at(decoder.InputOffset()), message: "malformed JSON: " + err.Error()}
	}
	return root, nil
}

// parseObject is parse for files, which must hold an object.
func parseObject(data []byte) (*value, error) {
	root, err := parse(data)
	if err == nil && root.kind != '{' {
		return nil, &syntaxError{line: root.line, message: "must be a JSON object, not " + kindName(root)}
	}
	return root, err
}

// parseValue recurses no deeper than encoding/json allows, which has seen the text before.
func parseValue(decoder *json.Decoder, lines lineIndex) (*value, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	v := &value{line: lines.at(decoder.InputOffset())}
	switch t := token.(type) {
	case json.Delim:
		v.kind = byte(t)
		for decoder.More() {
			if v.kind == '[' {
				item, err := parseValue(decoder, lines)
				if err != nil {
					return nil, err
				}
				v.items = append(v.items, item)
				continue
			}
			key, err := decoder.Token()
			if err != nil {
				return nil, err
			}
			name, _ := key.(string)
			line := lines.at(decoder.InputOffset())
			inner, err := parseValue(decoder, lines)
			if err != nil {
				return nil, err
			}
			v.members = append(v.members, member{key: name, line: line, value: inner})
		}
		_, err = decoder.Token()
	case string:
		v.kind, v.text = 's', t
	case json.Number:
		v.kind, v.text = 'n', t.String()
	case bool:
		v.kind, v.text = 'b', fmt.Sprint(t)
	default:
		v.kind = '0'
	}
	return v, err
}

func kindName(v *value) string {
	switch v.kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 's':
		return "text"
	case 'n':
		return "a number"
	case 'b':
		return "true or false"
	default:
		return "null"
	}
}

// lineIndex holds the offsets of the line ends.
type lineIndex []int

func newLineIndex(data []byte) lineIndex {
	var index lineIndex
	for i, c := range data {
		if c == '\n' {
			index = append(index, i)
		}
	}
	return index
}

// at returns the line, counted from 1, of the byte before offset.
func (l lineIndex) at(offset int64) int {
	return 1 + sort.SearchInts(l, max(int(offset)-1, 0))
}
