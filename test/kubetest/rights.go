// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
)

// PolicyRule is a rule of RBAC, with the meaning of rbac.authorization.k8s.io/v1.
type PolicyRule struct {
	// Namespace limits the rule to one namespace; empty = the whole cluster.
	Namespace       string   `json:"-"`
	Verbs           []string `json:"verbs"`
	APIGroups       []string `json:"apiGroups,omitempty"`
	Resources       []string `json:"resources,omitempty"`
	ResourceNames   []string `json:"resourceNames,omitempty"`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
}

// Subject is who gets rights: a user, or a service account if Namespace is set.
type Subject struct {
	Namespace string
	Name      string
}

// name is what roles and bindings for the subject are called.
func (s Subject) name() string {
	if s.Namespace == "" {
		return "kubetest:user:" + s.Name
	}
	return "kubetest:" + s.Namespace + ":" + s.Name
}

// user is the name under which the API server knows the subject.
func (s Subject) user() string {
	if s.Namespace == "" {
		return s.Name
	}
	return "system:serviceaccount:" + s.Namespace + ":" + s.Name
}

func (s Subject) reference() map[string]any {
	if s.Namespace == "" {
		return map[string]any{"kind": "User", "name": s.Name, "apiGroup": "rbac.authorization.k8s.io"}
	}
	return map[string]any{"kind": "ServiceAccount", "name": s.Name, "namespace": s.Namespace}
}

// Grant gives subject the rights of rules, creating namespaces as needed, and
// waits until the API server's authorizer knows. Granting again replaces the
// rules per namespace that is named again.
func (c *Cluster) Grant(ctx context.Context, subject Subject, rules ...PolicyRule) error {
	byNamespace := map[string][]PolicyRule{}
	for _, rule := range rules {
		byNamespace[rule.Namespace] = append(byNamespace[rule.Namespace], rule)
	}
	for namespace, rules := range byNamespace {
		if err := c.grantIn(ctx, namespace, subject, rules); err != nil {
			return fmt.Errorf("granting rights to %s: %w", subject.user(), err)
		}
	}
	for _, rule := range rules {
		err := waitFor(ctx, "rights of "+subject.user(), func(ctx context.Context) (bool, error) {
			return c.allowed(ctx, subject, rule)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) grantIn(ctx context.Context, namespace string, subject Subject, rules []PolicyRule) error {
	role, metadata := "ClusterRole", map[string]any{"name": subject.name()}
	if namespace != "" {
		role, metadata["namespace"] = "Role", namespace
		if err := c.CreateNamespace(ctx, namespace); err != nil {
			return err
		}
	}
	const version = "rbac.authorization.k8s.io/v1"
	for _, object := range []map[string]any{
		{"apiVersion": version, "kind": role, "metadata": metadata, "rules": rules},
		{
			"apiVersion": version, "kind": role + "Binding", "metadata": metadata,
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": subject.name()},
			"subjects": []any{subject.reference()},
		},
	} {
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		if err := c.Apply(ctx, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// allowed asks the API server whether the last thing that rule allows is allowed.
func (c *Cluster) allowed(ctx context.Context, subject Subject, rule PolicyRule) (bool, error) {
	spec := map[string]any{"user": subject.user()}
	if len(rule.NonResourceURLs) > 0 {
		spec["nonResourceAttributes"] = map[string]any{"verb": last(rule.Verbs), "path": last(rule.NonResourceURLs)}
	} else {
		spec["resourceAttributes"] = map[string]any{
			"namespace": rule.Namespace, "verb": last(rule.Verbs), "group": last(rule.APIGroups),
			"resource": last(rule.Resources), "name": last(rule.ResourceNames),
		}
	}
	var review struct{ Status struct{ Allowed bool } }
	err := c.post(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
	}, &review)
	return review.Status.Allowed, err
}

func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
