// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/fields"

	"synchronizer"
)

// Selection restricts what lists and watches ask for; the API server applies
// it, and RBAC sees it. The zero Selection is everything.
type Selection struct {
	// Namespace is the only one that is read; empty: all of them.
	Namespace string
	// LabelSelector and FieldSelector have the syntax of the API server's query.
	LabelSelector string
	FieldSelector string
	// ObjectKind is the kind's name in objects ("ConfigMap"), which lists leave
	// out of their items. Empty: the API server's discovery is asked. Set it only
	// for a selection that is used with one kind.
	ObjectKind string
}

// ConfigMap selects one ConfigMap. A Role with the verbs list and watch and the
// resourceName is enough to read it: with resourceNames the API server allows
// these verbs only to requests whose field selector names the object, and
// nothing else is sent, no GET and no discovery.
func ConfigMap(namespace, name string) Selection {
	return Selection{
		Namespace:     namespace,
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
		ObjectKind:    "ConfigMap",
	}
}

func (s Selection) apply(query url.Values) url.Values {
	if s.LabelSelector != "" {
		query.Set("labelSelector", s.LabelSelector)
	}
	if s.FieldSelector != "" {
		query.Set("fieldSelector", s.FieldSelector)
	}
	return query
}

// check refuses a namespace that would lead to another path.
func (s Selection) check() error {
	if s.Namespace != "" && !isSegment(s.Namespace) {
		return fmt.Errorf("%w: %q cannot be a namespace", synchronizer.ErrInvalid, s.Namespace)
	}
	return nil
}

// view is a Cluster seen through a Selection.
type view struct {
	cluster   *Cluster
	selection Selection
}

var _ synchronizer.Cluster = (*view)(nil)

// Select returns the cluster as s shows it. An object whose change takes it out
// of a label or field selector is WatchDeleted there although it exists, so Get
// answers for all objects of the namespace, whatever the selectors: ask it what
// such an event means. Of another namespace than s.Namespace nothing is found.
func (c *Cluster) Select(s Selection) synchronizer.Cluster {
	return &view{cluster: c, selection: s}
}

// List implements synchronizer.Cluster.
func (v *view) List(ctx context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	return v.cluster.selectedList(ctx, kind, v.selection, each)
}

// Watch implements synchronizer.Cluster.
func (v *view) Watch(ctx context.Context, kind synchronizer.Kind, resourceVersion string, each func(synchronizer.WatchEvent) error) error {
	return v.cluster.selectedWatch(ctx, kind, v.selection, resourceVersion, each)
}

// Get implements synchronizer.Cluster.
func (v *view) Get(ctx context.Context, kind synchronizer.Kind, namespace, name string) (synchronizer.Object, error) {
	if v.selection.Namespace != "" && namespace != v.selection.Namespace {
		return synchronizer.Object{}, fmt.Errorf("getting %v %s/%s: %w: only namespace %s is read",
			kind, namespace, name, synchronizer.ErrNotFound, v.selection.Namespace)
	}
	return v.cluster.Get(ctx, kind, namespace, name)
}
