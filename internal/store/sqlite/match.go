// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"synchronizer"
)

// namesInCondition is up to how many names are looked up one by one in each
// namespace; of more, only the range.
const namesInCondition = 50

// filter is what of a query is checked row by row.
type filter struct {
	deleted    bool
	since      int64
	namespaces []string // sorted; empty: all
	names      []string // sorted; empty: all
	prefix     string
	prefixEnd  string // the least text above all with the prefix; empty: none
	labels     []synchronizer.LabelRequirement
}

func newFilter(q *synchronizer.ObjectQuery) (filter, error) {
	f := filter{
		deleted:    q.Deleted,
		namespaces: namesOf(q.Namespaces, "-"),
		names:      namesOf(q.Names, ""),
		prefix:     q.NamePrefix,
		labels:     q.Labels,
	}
	if !q.UpdatedSince.IsZero() {
		f.since = q.UpdatedSince.Truncate(time.Microsecond).UnixMicro()
	}
	f.prefixEnd, _ = prefixEnd(f.prefix)
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

// nameCondition is byName in SQL, for the parameters from ?4 on.
func (f *filter) nameCondition() (string, []any) {
	if len(f.names) > 0 && len(f.names) <= namesInCondition {
		args := make([]any, len(f.names))
		marks := make([]string, len(f.names))
		for i, name := range f.names {
			args[i], marks[i] = name, fmt.Sprintf("?%d", 4+i)
		}
		return "o.name IN (" + strings.Join(marks, ", ") + ")", args
	}
	low, high := f.prefix, f.prefixEnd
	if len(f.names) > 0 {
		low, high = f.names[0], f.names[len(f.names)-1]+"\x00"
	}
	if high == "" {
		return "o.name >= ?4", []any{low}
	}
	return "o.name >= ?4 AND o.name < ?5", []any{low, high}
}

// matches checks everything, the ranges of the walk included, since an index
// of labels knows nothing of them.
func (f *filter) matches(row *synchronizer.Row, labels string) bool {
	switch {
	case row.Deleted() && !f.deleted,
		f.since != 0 && micros(row.UpdatedAt) < f.since,
		!strings.HasPrefix(row.Key.Name, f.prefix):
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
	have := parseLabels(labels)
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

// prefixEnd is the least text above all that begin with prefix; false if there
// is none.
func prefixEnd(prefix string) (string, bool) {
	end := []byte(prefix)
	for len(end) > 0 {
		last := len(end) - 1
		if end[last] < 0xff {
			end[last]++
			return string(end), true
		}
		end = end[:last]
	}
	return "", false
}
