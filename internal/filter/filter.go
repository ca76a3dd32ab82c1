// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"slices"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// Rules are what the configuration says.
type Rules struct {
	IncludeNamespaces []string // not empty: only these
	ExcludeNamespaces []string // looked at only if IncludeNamespaces is empty
	// OperatorNamespace is exempt from all rules; empty if there is none.
	OperatorNamespace     string
	IncludeChildWorkloads bool
}

// Filter answers for single objects. It does not change, so that any number of
// goroutines may use it. A nil Filter allows everything.
type Filter struct{ rules Rules }

// New keeps its own copy of the lists.
func New(rules Rules) *Filter {
	rules.IncludeNamespaces = slices.Clone(rules.IncludeNamespaces)
	rules.ExcludeNamespaces = slices.Clone(rules.ExcludeNamespaces)
	return &Filter{rules: rules}
}

// Namespace reports whether the objects of a namespace are carried. The empty
// namespace is that of cluster-scoped objects.
func (f *Filter) Namespace(namespace string) bool {
	switch {
	case f == nil, namespace == "", namespace == f.rules.OperatorNamespace:
		return true
	case len(f.rules.IncludeNamespaces) > 0:
		return slices.Contains(f.rules.IncludeNamespaces, namespace)
	default:
		return !slices.Contains(f.rules.ExcludeNamespaces, namespace)
	}
}

// Allows reports whether an object is carried. The document is read only for
// kinds that can be child workloads. On an error the object is one that cannot
// be read, and the answer is true: it has to be named rather than left out.
func (f *Filter) Allows(kind synchronizer.Kind, namespace string, doc []byte) (bool, error) {
	if f == nil {
		return true, nil
	}
	if !f.Namespace(namespace) {
		return false, nil
	}
	if f.rules.IncludeChildWorkloads || !canBeChild(kind) {
		return true, nil
	}
	if namespace != "" && namespace == f.rules.OperatorNamespace {
		return true, nil
	}
	child, err := isChild(kind, doc)
	return !child, err
}

func canBeChild(kind synchronizer.Kind) bool {
	switch kind.Group {
	case "":
		return kind.Resource == "pods"
	case "batch":
		return kind.Resource == "jobs"
	case "apps":
		return kind.Resource == "replicasets"
	}
	return false
}

// isChild goes by the first owner, as the clients in the field do. A pod that
// has lost its owner is told by the label that a deployment's pods carry.
func isChild(kind synchronizer.Kind, doc []byte) (bool, error) {
	meta, err := rawjson.Metadata(doc)
	if err != nil {
		return false, fmt.Errorf("reading owners: %w", err)
	}
	switch meta.OwnerAPIVersion {
	case "apps/v1", "batch/v1", "batch/v1beta1":
		return true, nil
	}
	orphan := meta.OwnerKind == "" && meta.OwnerAPIVersion == ""
	return orphan && kind.Resource == "pods" && meta.HasPodTemplateHash, nil
}
