// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"synchronizer"
)

// ParseLabelSelector reads a selector in the syntax of Kubernetes
// ("app=web,tier in (a,b),!old").
func ParseLabelSelector(text string) ([]synchronizer.LabelRequirement, error) {
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: labelSelector: %w", synchronizer.ErrInvalid, err)
	}
	requirements, _ := selector.Requirements()
	var list []synchronizer.LabelRequirement
	for _, r := range requirements {
		l := synchronizer.LabelRequirement{Key: r.Key(), Values: r.Values().List()}
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			l.Operator = synchronizer.LabelIn
		case selection.NotEquals, selection.NotIn:
			l.Operator = synchronizer.LabelNotIn
		case selection.Exists:
			l.Operator = synchronizer.LabelExists
		case selection.DoesNotExist:
			l.Operator = synchronizer.LabelNotExists
		default:
			return nil, fmt.Errorf("%w: labelSelector: operator %q is not supported", synchronizer.ErrInvalid, r.Operator())
		}
		list = append(list, l)
	}
	return list, nil
}
