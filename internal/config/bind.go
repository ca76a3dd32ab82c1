// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"strings"
)

// binder carries values from a parsed file and the environment into the struct tree and
// collects what does not fit, instead of stopping at the first.
type binder struct {
	file     string
	problems Problems
	warnings Warnings
	// lines maps the lower-cased path of every known key of the file to its line.
	lines map[string]int
}

func equalKey(a, b string) bool { return strings.EqualFold(a, b) }

func (b *binder) problem(path string, line int, format string, args ...any) {
	b.problems = append(b.problems, Problem{Path: path, Message: fmt.Sprintf(format, args...), File: b.file, Line: line})
}

func (b *binder) warn(path string, line int, format string, args ...any) {
	b.warnings = append(b.warnings, Problem{Path: path, Message: fmt.Sprintf(format, args...), File: b.file, Line: line})
}

// section fills the struct target from the object v; path is that of the section.
func (b *binder) section(n *node, target reflect.Value, v *value, path string) {
	seen := make(map[*node]bool)
	for _, m := range v.members {
		child := n.child(m.key)
		if child == nil {
			b.warn(join(path, m.key), m.line, "unknown key, ignored%s", suggestion(n, m.key))
			continue
		}
		where := join(path, child.key)
		if seen[child] {
			b.warn(where, m.line, "the key is there twice; the last one counts")
		}
		seen[child] = true
		b.lines[strings.ToLower(where)] = m.line
		b.set(child, fieldOf(target, child), m.value, where)
	}
}

// fieldOf finds the struct field of a node.
func fieldOf(target reflect.Value, n *node) reflect.Value {
	for i := range target.NumField() {
		if key, _, _ := strings.Cut(target.Type().Field(i).Tag.Get("json"), ","); key == n.key {
			return target.Field(i)
		}
	}
	return reflect.Value{} // not reached: nodes are made from the fields
}

// set converts v into target. null leaves the default.
func (b *binder) set(n *node, target reflect.Value, v *value, path string) {
	if v.kind == '0' {
		return
	}
	if n.optional {
		if n.Section && v.kind != '{' {
			b.wrongType(n, v, path)
			return
		}
		fresh := allocate(n.typ)
		target.Set(fresh)
		target = fresh.Elem()
	}
	switch {
	case n.typ == typePresence:
		target.SetBool(!v.empty())
	case n.Section:
		if v.kind != '{' {
			b.wrongType(n, v, path)
			return
		}
		b.section(n, target, v, path)
	case isSectionList(n.typ):
		b.sectionList(n, target, v, path)
	case n.typ.Kind() == reflect.Slice:
		b.textList(n, target, v, path)
	case n.typ.Kind() == reflect.Map:
		b.textMap(n, target, v, path)
	case v.kind == '{' || v.kind == '[':
		b.wrongType(n, v, path)
	default:
		if err := setScalar(target, v); err != nil {
			b.problem(path, v.line, "%s%s", shown(n, v), err)
		}
	}
}

func (b *binder) wrongType(n *node, v *value, path string) {
	b.problem(path, v.line, "must be %s, not %s", article(n.Type), kindName(v))
}

// sectionList takes a list of objects; one object stands for a list of one, "" and {} for none.
func (b *binder) sectionList(n *node, target reflect.Value, v *value, path string) {
	items := v.items
	switch {
	case v.kind == '[':
	case v.empty():
		items = nil
	case v.kind == '{':
		items = []*value{v}
	default:
		b.wrongType(n, v, path)
		return
	}
	list := reflect.MakeSlice(n.typ, len(items), len(items))
	for i, item := range items {
		where := fmt.Sprintf("%s[%d]", path, i)
		b.lines[strings.ToLower(where)] = item.line
		if item.kind != '{' {
			b.problem(where, item.line, "must be a section, not %s", kindName(item))
			continue
		}
		b.section(n, list.Index(i), item, where)
	}
	target.Set(list)
}

// textList takes a list of scalars, or a text that is split at commas and not trimmed.
func (b *binder) textList(n *node, target reflect.Value, v *value, path string) {
	texts := []string{}
	switch v.kind {
	case '[':
		for i, item := range v.items {
			if item.kind == '{' || item.kind == '[' || item.kind == '0' {
				b.problem(fmt.Sprintf("%s[%d]", path, i), item.line, "must be text, not %s", kindName(item))
				continue
			}
			b.lines[strings.ToLower(fmt.Sprintf("%s[%d]", path, i))] = item.line
			texts = append(texts, item.text)
		}
	case '{':
		if !v.empty() {
			b.wrongType(n, v, path)
			return
		}
	case 's':
		if v.text != "" {
			texts = strings.Split(v.text, ",")
		}
	default:
		texts = append(texts, v.text)
	}
	target.Set(reflect.ValueOf(texts))
}

// textMap takes an object of scalars and keeps the case of its keys.
func (b *binder) textMap(n *node, target reflect.Value, v *value, path string) {
	texts := map[string]string{}
	if v.kind != '{' && !v.empty() {
		b.wrongType(n, v, path)
		return
	}
	for _, m := range v.members {
		if m.value.kind == '{' || m.value.kind == '[' {
			b.problem(join(path, m.key), m.line, "must be text, not %s", kindName(m.value))
			continue
		}
		texts[m.key] = m.value.text
	}
	target.Set(reflect.ValueOf(texts))
}

// shown repeats a value in a message, unless it is a secret; long ones are cut.
func shown(n *node, v *value) string {
	if n.Secret {
		return "the value "
	}
	const longest = 40
	text := []rune(v.text)
	if len(text) > longest {
		text = append(text[:longest], '…')
	}
	return fmt.Sprintf("%q ", redactURL(string(text)))
}

func article(typeName string) string {
	switch typeName {
	case "text", "true or false", "seconds", "anything":
		return typeName
	default:
		return "a " + typeName
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// suggestion names the sibling that an unknown key resembles, or where it would belong.
func suggestion(n *node, key string) string {
	best, distance := "", 3
	for _, c := range n.children {
		if d := editDistance(strings.ToLower(key), strings.ToLower(c.key)); d < distance && d < len(c.key) {
			best, distance = c.key, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// maxCompared bounds the work that one unknown key can cause.
const maxCompared = 64

// editDistance counts insertions, deletions and replacements of bytes.
func editDistance(a, b string) int {
	if len(a) > maxCompared || len(b) > maxCompared {
		return maxCompared
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
