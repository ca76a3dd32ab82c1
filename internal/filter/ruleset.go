// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"sync/atomic"

	"synchronizer"
)

const (
	// maxProgram bounds the compiled regexes of one document, in instructions and
	// ranges of characters (some 10 MB). Thousands of usual patterns fit, but not
	// a document of repetitions (`a{1000}`), which grows a thousandfold.
	maxProgram = 1 << 18
	// maxDecisions bounds the namespaces that a ruleset remembers, and
	// maxRemembered the length of their names: what Kubernetes allows.
	maxDecisions  = 8192
	maxRemembered = 63
)

// ruleset is lists made ready for use. Only what it remembers changes.
type ruleset struct {
	include, exclude           map[string]struct{}
	includeRegex, excludeRegex []*regexp.Regexp

	// Patterns cost microseconds and objects come in millions, from few namespaces.
	decisions sync.Map // namespace → bool
	decided   atomic.Int64
}

// named is a ruleset without regexes.
func named(include, exclude []string) *ruleset {
	return &ruleset{include: set(include), exclude: set(exclude)}
}

// compile fails with an ErrInvalid that names the field.
func compile(lists Lists) (*ruleset, error) {
	r := named(lists.IncludeNamespaces, lists.ExcludeNamespaces)
	budget := maxProgram
	var err error
	if r.includeRegex, err = compileAll(fieldIncludeRegex, lists.IncludeNamespacesRegex, &budget); err != nil {
		return nil, err
	}
	if r.excludeRegex, err = compileAll(fieldExcludeRegex, lists.ExcludeNamespacesRegex, &budget); err != nil {
		return nil, err
	}
	return r, nil
}

func compileAll(field string, patterns []string, budget *int) ([]*regexp.Regexp, error) {
	var compiled []*regexp.Regexp
	for _, pattern := range patterns {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", synchronizer.ErrInvalid, field, shortened(err))
		}
		instructions, ranges := weight(parsed)
		if *budget -= instructions + ranges; *budget < 0 {
			return nil, fmt.Errorf("%w: %s: the regexes of the document are too large together", synchronizer.ErrInvalid, field)
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", synchronizer.ErrInvalid, field, shortened(err))
		}
		compiled = append(compiled, re)
	}
	return compiled, nil
}

// shortened is an error for a log line: a pattern may be very long.
func shortened(err error) error {
	text := err.Error()
	if len(text) <= 300 {
		return err
	}
	return fmt.Errorf("%s…", strings.ToValidUTF8(text[:300], ""))
}

// weight is the size of a compiled regex, near enough and never much too low.
// A repetition copies instructions; the ranges of a class are shared by its copies.
func weight(re *syntax.Regexp) (instructions, ranges int) {
	instructions = 1
	switch re.Op {
	case syntax.OpLiteral:
		instructions += len(re.Rune)
	case syntax.OpCharClass:
		ranges = len(re.Rune)
	}
	for _, sub := range re.Sub {
		i, r := weight(sub)
		instructions, ranges = instructions+i, ranges+r
	}
	if re.Op == syntax.OpRepeat {
		instructions *= max(1, re.Min, re.Max)
	}
	return instructions, ranges
}

func set(names []string) map[string]struct{} {
	s := make(map[string]struct{}, len(names))
	for _, name := range names {
		s[name] = struct{}{}
	}
	return s
}

// allow decides about a namespace, without exemptions.
func (r *ruleset) allow(namespace string) bool {
	if len(r.includeRegex)+len(r.excludeRegex) == 0 {
		return r.decide(namespace)
	}
	if answer, ok := r.decisions.Load(namespace); ok {
		return answer.(bool)
	}
	answer := r.decide(namespace)
	// Several goroutines may each go one beyond the bound; that is near enough.
	if len(namespace) <= maxRemembered && r.decided.Load() < maxDecisions {
		// The caller's text may be part of a whole object.
		if _, known := r.decisions.LoadOrStore(strings.Clone(namespace), answer); !known {
			r.decided.Add(1)
		}
	}
	return answer
}

func (r *ruleset) decide(namespace string) bool {
	if len(r.include)+len(r.includeRegex) > 0 {
		return matches(namespace, r.include, r.includeRegex)
	}
	return !matches(namespace, r.exclude, r.excludeRegex)
}

func matches(namespace string, names map[string]struct{}, patterns []*regexp.Regexp) bool {
	if _, ok := names[namespace]; ok {
		return true
	}
	for _, pattern := range patterns {
		if pattern.MatchString(namespace) {
			return true
		}
	}
	return false
}
