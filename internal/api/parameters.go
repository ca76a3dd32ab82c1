// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"synchronizer"
)

// parameters reads those of a query. The first that cannot be read is err, which
// is for the reader to look at in the end.
type parameters struct {
	values url.Values
	err    error
}

// readParameters takes those that are known, each with whether it may be given more
// than once.
func readParameters(v url.Values, known map[string]bool) *parameters {
	return &parameters{values: v, err: checkParameters(v, known)}
}

// checkParameters refuses what would be ignored: a filter that is ignored
// silently shows too much.
func checkParameters(v url.Values, known map[string]bool) error {
	for name, values := range v {
		switch many, ok := known[name]; {
		case !ok:
			return fmt.Errorf("%w: query parameter %q is not known", synchronizer.ErrInvalid, name)
		case !many && len(values) > 1:
			return fmt.Errorf("%w: query parameter %q is given more than once", synchronizer.ErrInvalid, name)
		}
	}
	return nil
}

func (p *parameters) boolean(name string) bool {
	return parse(p, name, "is neither true nor false", strconv.ParseBool)
}

func (p *parameters) positive(name string) int {
	return parse(p, name, "is not a positive number", func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err == nil && n < 1 {
			err = strconv.ErrRange
		}
		return n, err
	})
}

func (p *parameters) instant(name string) time.Time {
	return parse(p, name, "is not an RFC 3339 time", func(text string) (time.Time, error) {
		return time.Parse(time.RFC3339, text)
	})
}

// parse gives the zero value for a parameter that is missing or wrong.
func parse[T any](p *parameters, name, fault string, read func(string) (T, error)) (zero T) {
	text := p.values.Get(name)
	if text == "" || p.err != nil {
		return zero
	}
	value, err := read(text)
	if err != nil {
		p.err = fmt.Errorf("%w: %s=%q %s", synchronizer.ErrInvalid, name, text, fault)
		return zero
	}
	return value
}
