// SPDX-License-Identifier: Apache-2.0

package filter

import "slices"

// Live holds a Filter whose four lists are replaced while it is in use. The
// startup lists of the configuration are no part of it.
type Live struct {
	filter Filter
	lists  Lists // in force; of the one goroutine that replaces them
}

// NewLive starts without rules: until the first Replace nothing is carried, not
// even what is exempt from rules.
func NewLive(operatorNamespace string, includeChildWorkloads bool) *Live {
	return &Live{filter: Filter{operatorNamespace: operatorNamespace, includeChildWorkloads: includeChildWorkloads}}
}

// Filter is always the same one, and answers by the rules in force.
func (l *Live) Filter() *Filter { return &l.filter }

// Namespace is that of Filter.
func (l *Live) Namespace(namespace string) bool { return l.filter.Namespace(namespace) }

// Replace puts all four lists in force at once and tells whether they differ
// from those before; the first ones do. A regex that does not compile is an
// ErrInvalid that names its field, and changes nothing. It must not be called by
// two goroutines at once. The lists must not be changed afterwards.
func (l *Live) Replace(lists Lists) (changed bool, err error) {
	if l.filter.rules.Load() != nil && l.lists.equal(lists) {
		return false, nil
	}
	rules, err := compile(lists)
	if err != nil {
		return false, err
	}
	l.lists = lists
	l.filter.rules.Store(rules)
	return true, nil
}

func (l Lists) equal(other Lists) bool {
	return slices.Equal(l.IncludeNamespaces, other.IncludeNamespaces) &&
		slices.Equal(l.ExcludeNamespaces, other.ExcludeNamespaces) &&
		slices.Equal(l.IncludeNamespacesRegex, other.IncludeNamespacesRegex) &&
		slices.Equal(l.ExcludeNamespacesRegex, other.ExcludeNamespacesRegex)
}
