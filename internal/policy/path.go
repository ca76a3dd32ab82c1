// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of one path; real ones are far smaller.
const (
	maxPathBytes = 1024
	maxPathSteps = 64
)

type stepKind uint8

const (
	oneMember  stepKind = iota // the member called name
	anyMember                  // *
	anyElement                 // [*]
)

// step leads from a value to values directly inside it.
type step struct {
	kind stepKind
	name string
}

// path leads from an object to places inside it.
type path []step

// parsePath reads the form that rules are written in:
//
//	spec.template.spec.containers[*].image
//	data.*
//	metadata.annotations['example.com/owner']
//
// Names may be quoted with ' or "; inside, the other quote may stand. An error says
// what is wrong and how to write it.
func parsePath(text string) (path, error) {
	switch {
	case text == "":
		return nil, errors.New("is empty: name a field, such as spec.replicas")
	case len(text) > maxPathBytes:
		return nil, fmt.Errorf("is longer than %d bytes", maxPathBytes)
	case !utf8.ValidString(text):
		return nil, errors.New("is not valid UTF-8")
	case text[0] == '$' || text[0] == '.' || text[0] == '/':
		return nil, errors.New("begins with the name of a field, such as spec, and nothing before it")
	}
	var p path
	for rest := text; rest != ""; {
		read := readName
		switch {
		case rest[0] == '[':
			read = readBracket
		case len(p) == 0:
		case rest[0] == '.':
			rest = rest[1:]
		default:
			return nil, fmt.Errorf("expected . or [ after byte %d", len(text)-len(rest))
		}
		s, n, err := read(rest)
		if err != nil {
			return nil, err
		}
		p, rest = append(p, s), rest[n:]
		if len(p) > maxPathSteps {
			return nil, fmt.Errorf("has more than %d steps", maxPathSteps)
		}
	}
	if p[0].kind == anyElement {
		return nil, errors.New("begins with the name of a field: an object has no elements")
	}
	return p, nil
}

func readName(text string) (step, int, error) {
	n := strings.IndexAny(text, ".[")
	if n < 0 {
		n = len(text)
	}
	name := text[:n]
	switch {
	case name == "":
		return step{}, 0, errors.New("has an empty name: a dot too many")
	case name == "*":
		return step{kind: anyMember}, n, nil
	case strings.Contains(name, "*"):
		return step{}, 0, fmt.Errorf("%q: * stands for a whole name, not for a part of one", name)
	case strings.ContainsFunc(name, unquotable):
		return step{}, 0, fmt.Errorf("%q has characters that must be quoted: write ['…']", name)
	}
	return step{name: name}, n, nil
}

func unquotable(r rune) bool {
	return strings.ContainsRune(`]'"\/(){},:;|?@$&`, r) || unicode.IsSpace(r) || unicode.IsControl(r)
}

func readBracket(text string) (step, int, error) {
	if strings.HasPrefix(text, "[*]") {
		return step{kind: anyElement}, len("[*]"), nil
	}
	if len(text) < 2 || text[1] != '\'' && text[1] != '"' {
		return step{}, 0, errors.New("after [ comes * for all elements, or a quoted name such as ['example.com/owner']; elements cannot be picked")
	}
	closing := text[1:2] + "]"
	n := strings.Index(text[2:], closing)
	if n < 0 {
		return step{}, 0, fmt.Errorf("a quoted name ends with %s", closing)
	}
	name := text[2 : 2+n]
	if strings.Contains(name, text[1:2]) {
		return step{}, 0, errors.New("a name that holds a quote is quoted with the other one")
	}
	return step{name: name}, 2 + n + len(closing), nil
}

// String writes the path in the one form that equal paths share.
func (p path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.kind == anyElement:
			b.WriteString("[*]")
			continue
		case s.kind == oneMember && quoted(s.name):
			quote := "'"
			if strings.Contains(s.name, quote) {
				quote = `"`
			}
			b.WriteString("[" + quote + s.name + quote + "]")
			continue
		case i > 0:
			b.WriteByte('.')
		}
		if s.kind == anyMember {
			b.WriteByte('*')
		} else {
			b.WriteString(s.name)
		}
	}
	return b.String()
}

func quoted(name string) bool {
	return name == "" || strings.ContainsAny(name, ".[*") || strings.ContainsFunc(name, unquotable)
}

// member reports whether the step leads to the member called name.
func (s step) member(name string) bool {
	return s.kind == anyMember || s.kind == oneMember && s.name == name
}

// meets reports whether there may be a place that both lead through: one of them
// leads to, above or below a place of the other.
func (p path) meets(other path) bool {
	for i := range min(len(p), len(other)) {
		a, b := p[i], other[i]
		if (a.kind == anyElement) != (b.kind == anyElement) || a.kind == oneMember && b.kind == oneMember && a.name != b.name {
			return false
		}
	}
	return true
}

// JoinPath gives the path of a member of the value at outer, as rules write it; outer
// is empty for the object itself.
func JoinPath(outer, name string) string {
	inner := path{{name: name}}.String()
	if outer == "" || inner[0] == '[' {
		return outer + inner
	}
	return outer + "." + inner
}
