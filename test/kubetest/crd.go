// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Scope says whether the objects of a kind live in namespaces.
type Scope string

// The scopes of a custom resource.
const (
	Namespaced    Scope = "Namespaced"
	ClusterScoped Scope = "Cluster"
)

// CreateCRD defines a kind that accepts any fields, and waits until the API
// server has established it, serves it and lists it in discovery.
func (c *Cluster) CreateCRD(ctx context.Context, group, version, plural, kind string, scope Scope) error {
	definition := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group,
			"scope": string(scope),
			"names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind},
			"versions": []any{map[string]any{
				"name": version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}
	text, err := json.Marshal(definition)
	if err != nil {
		return err
	}
	return c.Apply(ctx, string(text))
}

// crd is what is read of a CustomResourceDefinition.
type crd struct {
	Spec struct {
		Group    string
		Names    struct{ Plural string }
		Versions []struct {
			Name   string
			Served bool
		}
	}
	Status struct{ Conditions []metav1.Condition }
}

func (c *Cluster) waitForCRD(ctx context.Context, name string) error {
	return waitFor(ctx, "custom resource "+name, func(ctx context.Context) (bool, error) {
		text, err := c.Get(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name)
		if err != nil {
			return false, err
		}
		var definition crd
		if err := json.Unmarshal(text, &definition); err != nil {
			return false, fmt.Errorf("reading definition: %w", err)
		}
		return definition.established() && c.serves(ctx, definition), nil
	})
}

func (d crd) established() bool {
	for _, condition := range d.Status.Conditions {
		if condition.Type == "Established" {
			return condition.Status == metav1.ConditionTrue
		}
	}
	return false
}

// serves reports whether every served version is in discovery and can be listed:
// each of the two follows the condition Established with its own delay.
func (c *Cluster) serves(ctx context.Context, d crd) bool {
	for _, version := range d.Spec.Versions {
		if !version.Served {
			continue
		}
		root := versionPath(schema.GroupVersion{Group: d.Spec.Group, Version: version.Name})
		answer, err := c.Get(ctx, root)
		if err != nil {
			return false
		}
		var list metav1.APIResourceList
		if json.Unmarshal(answer, &list) != nil || !lists(list, d.Spec.Names.Plural) {
			return false
		}
		// Storage that is still being set up answers with 503 or 404; what the group
		// itself refuses (405) would not change with waiting.
		if _, err := c.Get(ctx, root+"/"+d.Spec.Names.Plural+"?limit=1"); err != nil && !apierrors.IsMethodNotSupported(err) {
			return false
		}
	}
	return true
}

func lists(list metav1.APIResourceList, plural string) bool {
	for _, resource := range list.APIResources {
		if resource.Name == plural {
			return true
		}
	}
	return false
}
