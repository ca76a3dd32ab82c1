// SPDX-License-Identifier: Apache-2.0

package walk

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"synchronizer"
	"synchronizer/internal/store/index"
)

const (
	defaultLimit = 100
	maxLimit     = 10_000
	maxTerms     = 10_000
	// namesInCondition is up to how many names are looked up one by one in each
	// namespace; of more, only the range.
	namesInCondition = 50
)

// Limits bound one page.
type Limits struct {
	// Rows bounds what a page looks at beyond what it returns.
	Rows int
	// Bytes bounds the bodies of one page; one body may be above it.
	Bytes int64
}

// DefaultLimits are those of a store that is not told otherwise.
var DefaultLimits = Limits{Rows: 10_000, Bytes: 64 << 20}

// Query is a checked ObjectQuery: what of it selects kinds stands in Groups and
// the lists of the caller, the rest is the walk's.
type Query struct {
	// From is where the list goes on; nil at its beginning.
	From *Position
	// Groups are those of the query, with "" for the core group.
	Groups []string

	limit int
	full  bool
	filter
}

// NewQuery checks a query; its errors wrap synchronizer.ErrInvalid.
func NewQuery(q *synchronizer.ObjectQuery) (*Query, error) {
	limit, err := PageLimit(q.Limit)
	if err != nil {
		return nil, err
	}
	terms := len(q.Clusters) + len(q.Groups) + len(q.Versions) + len(q.Resources) + len(q.Namespaces) + len(q.Names)
	for i := range q.Labels {
		terms += 1 + len(q.Labels[i].Values)
	}
	if terms > maxTerms {
		return nil, fmt.Errorf("%w: a query of %d terms; %d is the most", synchronizer.ErrInvalid, terms, maxTerms)
	}
	f, err := newFilter(q)
	if err != nil {
		return nil, err
	}
	from, err := parsePosition(q.Continue)
	if err != nil {
		return nil, err
	}
	return &Query{From: from, Groups: NamesOf(q.Groups, "core"), limit: limit, full: q.Full, filter: f}, nil
}

// Words are those that a row has to have, sorted. Rows are found with those of
// them that they have, or with all of theirs; if there are none, with none.
func (q *Query) Words() index.Words { return q.search }

// Terms reports whether an index of labels or words may be asked.
func (q *Query) Terms() bool { return len(q.terms()) > 0 }

// PageLimit gives the limit of a page, or an error that wraps ErrInvalid.
func PageLimit(limit int) (int, error) {
	switch {
	case limit == 0:
		return defaultLimit, nil
	case limit < 0 || limit > maxLimit:
		return 0, fmt.Errorf("%w: limit %d is not between 1 and %d", synchronizer.ErrInvalid, limit, maxLimit)
	}
	return limit, nil
}

// NamesOf replaces the word that stands for the empty text; sorted, each once.
func NamesOf(values []string, empty string) []string {
	values = slices.Clone(values)
	for i := range values {
		if values[i] == empty {
			values[i] = ""
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// filter is what of a query is checked row by row.
type filter struct {
	deleted    bool
	since      time.Time
	namespaces []string // sorted; empty: all
	names      []string // sorted; empty: all
	prefix     string
	prefixEnd  string // the least text above all with the prefix; empty: none
	labels     []synchronizer.LabelRequirement
	search     index.Words
}

func newFilter(q *synchronizer.ObjectQuery) (filter, error) {
	f := filter{
		deleted:    q.Deleted,
		since:      q.UpdatedSince.Truncate(time.Microsecond),
		namespaces: NamesOf(q.Namespaces, "-"),
		names:      NamesOf(q.Names, ""),
		prefix:     q.NamePrefix,
		prefixEnd:  prefixEnd(q.NamePrefix),
		labels:     q.Labels,
	}
	if q.Search != "" {
		if f.search = index.Search(q.Search); len(f.search) == 0 {
			return f, fmt.Errorf("%w: search %q has no word of two or more letters or digits", synchronizer.ErrInvalid, q.Search)
		}
	}
	for _, requirement := range q.Labels {
		switch requirement.Operator {
		case synchronizer.LabelIn, synchronizer.LabelNotIn:
			if len(requirement.Values) == 0 {
				return f, fmt.Errorf("%w: label requirement on %q has no values", synchronizer.ErrInvalid, requirement.Key)
			}
		case synchronizer.LabelExists, synchronizer.LabelNotExists:
			if len(requirement.Values) > 0 {
				return f, fmt.Errorf("%w: label requirement on %q has values", synchronizer.ErrInvalid, requirement.Key)
			}
		default:
			return f, fmt.Errorf("%w: label operator %d", synchronizer.ErrInvalid, requirement.Operator)
		}
		if requirement.Key == "" {
			return f, fmt.Errorf("%w: label requirement without a key", synchronizer.ErrInvalid)
		}
	}
	return f, nil
}

// byName reports whether names are restricted.
func (f *filter) byName() bool { return f.prefix != "" || len(f.names) > 0 }

// nameRange is byName for an index.
func (f *filter) nameRange() Names {
	switch {
	case len(f.names) > 0 && len(f.names) <= namesInCondition:
		return Names{In: f.names}
	case len(f.names) > 0:
		return Names{From: f.names[0], End: f.names[len(f.names)-1] + "\x00"}
	default:
		return Names{From: f.prefix, End: f.prefixEnd}
	}
}

// matches checks everything, the ranges of the walk included, since an index
// of labels or words knows nothing of them.
func (f *filter) matches(found *Found) bool {
	row := &found.Row
	switch {
	case row.Deleted() && !f.deleted,
		!f.since.IsZero() && row.UpdatedAt.Before(f.since),
		!strings.HasPrefix(row.Key.Name, f.prefix),
		!found.Words.Contain(f.search):
		return false
	}
	if len(f.namespaces) > 0 {
		if _, ok := slices.BinarySearch(f.namespaces, row.Key.Namespace); !ok {
			return false
		}
	}
	if len(f.names) > 0 {
		if _, ok := slices.BinarySearch(f.names, row.Key.Name); !ok {
			return false
		}
	}
	if len(f.labels) == 0 {
		return true
	}
	have := found.Labels.Map()
	for i := range f.labels {
		if !satisfies(have, &f.labels[i]) {
			return false
		}
	}
	return true
}

// satisfies follows Kubernetes: what is absent is not in any set.
func satisfies(labels map[string]string, requirement *synchronizer.LabelRequirement) bool {
	value, ok := labels[requirement.Key]
	switch requirement.Operator {
	case synchronizer.LabelIn:
		return ok && slices.Contains(requirement.Values, value)
	case synchronizer.LabelNotIn:
		return !ok || !slices.Contains(requirement.Values, value)
	case synchronizer.LabelExists:
		return ok
	case synchronizer.LabelNotExists:
		return !ok
	}
	return false
}

// terms are what of the filter an index of labels or words can find.
func (f *filter) terms() []Term {
	var terms []Term
	for i := range f.labels {
		requirement := &f.labels[i]
		if requirement.Operator != synchronizer.LabelIn {
			continue
		}
		t := Term{Hashes: make([]int64, len(requirement.Values))}
		for j, value := range requirement.Values {
			t.Hashes[j] = index.LabelHash(requirement.Key, value)
		}
		terms = append(terms, t)
	}
	for _, word := range f.search {
		terms = append(terms, Term{Word: true, Hashes: []int64{word}})
	}
	return terms
}

// prefixEnd is the least text above all that begin with prefix; empty if there is
// none. It is made of whole characters, as PostgreSQL has no other texts.
func prefixEnd(prefix string) string {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch r {
		case utf8.MaxRune:
			continue
		case 0xd7ff: // surrogates are no characters
			r = 0xe000
		default:
			r++
		}
		return prefix + string(r)
	}
	return ""
}
