// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"sync/atomic"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// Rules are what the configuration says. Names are taken as they are.
type Rules struct {
	IncludeNamespaces []string // not empty: only these
	ExcludeNamespaces []string // looked at only if IncludeNamespaces is empty
	// OperatorNamespace is exempt from all rules; empty if there is none.
	OperatorNamespace     string
	IncludeChildWorkloads bool
}

// Filter answers for single objects. Any number of goroutines may use it, and
// no answer waits for a lock. A nil Filter allows everything.
type Filter struct {
	operatorNamespace     string
	includeChildWorkloads bool
	rules                 atomic.Pointer[ruleset] // nil: none are known yet
}

// New makes a filter whose rules do not change. It keeps its own copy of the lists.
func New(rules Rules) *Filter {
	f := &Filter{operatorNamespace: rules.OperatorNamespace, includeChildWorkloads: rules.IncludeChildWorkloads}
	f.rules.Store(named(rules.IncludeNamespaces, rules.ExcludeNamespaces))
	return f
}

// Namespace reports whether the objects of a namespace are carried. The empty
// namespace is that of cluster-scoped objects.
func (f *Filter) Namespace(namespace string) bool {
	if f == nil {
		return true
	}
	rules := f.rules.Load()
	switch {
	case rules == nil:
		return false
	case namespace == "", namespace == f.operatorNamespace:
		return true
	}
	return rules.allow(namespace)
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
	if f.includeChildWorkloads || !canBeChild(kind) {
		return true, nil
	}
	if namespace != "" && namespace == f.operatorNamespace {
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
