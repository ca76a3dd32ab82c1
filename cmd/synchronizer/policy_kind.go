// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"synchronizer"
	"synchronizer/internal/agent"
	"synchronizer/internal/app/client"
	"synchronizer/internal/catalog"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
	"synchronizer/internal/policy/trial"
)

// discover asks the cluster of --kubeconfig which kinds it serves.
func (f *policyTrial) discover(ctx context.Context) error {
	if f.kubeconfig == "" {
		return nil
	}
	rest, _, err := kube.LoadConfig(kube.LoadOptions{Flag: f.kubeconfig, Context: f.context})
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	cluster, err := kube.New(kube.Options{Config: rest})
	if err != nil {
		return err
	}
	defer cluster.Close()
	if f.groups, err = cluster.Groups(ctx); err != nil {
		return fmt.Errorf("asking the API server for its kinds: %w", err)
	}
	return nil
}

// kindOf finds the resource of an object's kind: what the cluster says if one was
// asked, else one that is configured or named by a rule if there is one, else the
// usual plural.
func (f *policyTrial) kindOf(o *trial.Object) synchronizer.Kind {
	kind := synchronizer.Kind{Group: o.Group(), Version: o.Version(), Resource: f.resource}
	if f.resource != "" {
		return kind
	}
	for _, g := range f.groups {
		for _, v := range g.Versions {
			at := slices.IndexFunc(v.Resources, func(r catalog.Resource) bool { return r.ObjectKind == o.Kind })
			if g.Name == kind.Group && v.Name == kind.Version && at >= 0 {
				kind.Resource = v.Resources[at].Name
				return kind
			}
		}
	}
	plurals := trial.Plurals(o.Kind)
	for _, resource := range plurals {
		kind.Resource = resource
		configured := f.config != nil && slices.ContainsFunc(f.config.Resources, func(r config.Resource) bool {
			return r.Group == kind.Group && r.Resource == resource
		})
		if configured || slices.ContainsFunc(f.rules, func(r config.PolicyRule) bool {
			return r.Match.Group == kind.Group && r.Match.Resource == resource
		}) {
			return kind
		}
	}
	kind.Resource = plurals[0]
	return kind
}

// entries are the kinds that are carried. Where no cluster was asked, the
// object's kind is taken for one that is served, for the sake of wildcards.
func (f *policyTrial) entries(kind synchronizer.Kind) []agent.KindConfig {
	groups := f.groups
	if groups == nil {
		groups = []catalog.Group{{Name: kind.Group, Versions: []catalog.Version{
			{Name: kind.Version, Resources: []catalog.Resource{{Name: kind.Resource, Watchable: true}}},
		}}}
	}
	return client.ExpandKinds(f.config, groups)
}

// stays says why an object would not leave the cluster; "" if it would.
func (f *policyTrial) stays(kind synchronizer.Kind, o *trial.Object) (string, error) {
	if f.config == nil {
		return "", nil
	}
	entries := f.entries(kind)
	at := slices.IndexFunc(entries, func(k agent.KindConfig) bool { return k.Kind == kind })
	if at < 0 {
		for _, k := range entries {
			if k.Kind.Group == kind.Group && k.Kind.Resource == kind.Resource {
				return fmt.Sprintf("inCluster.resources has version %s of its kind", k.Kind.Version), nil
			}
		}
		return fmt.Sprintf("inCluster.resources has no %s (guessed wrong? say --resource)", kind), nil
	}
	if reason, err := unselected(&entries[at], o); reason != "" || err != nil {
		return reason, err
	}
	if !f.filter.Namespace(o.Namespace) {
		return fmt.Sprintf("the namespace rules leave out %s", o.Namespace), nil
	}
	allowed, err := f.filter.Allows(kind, o.Namespace, o.JSON)
	if err != nil {
		return "", err
	}
	if !allowed {
		return "it is made by another workload (inCluster.includeChildWorkloads)", nil
	}
	return "", nil
}

// unselected says which setting of its kind's entry leaves an object out; "" if
// none does. Of fields only those are known that all kinds have.
func unselected(k *agent.KindConfig, o *trial.Object) (string, error) {
	if len(k.Namespaces) > 0 && !slices.Contains(k.Namespaces, o.Namespace) {
		return fmt.Sprintf("its kind is read in the namespaces %v only", k.Namespaces), nil
	}
	var object struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(o.JSON, &object); err != nil {
		return "", fmt.Errorf("reading labels: %w", err)
	}
	wanted, err := labels.Parse(k.LabelSelector)
	if err != nil {
		return "", fmt.Errorf("reading labelSelector: %w", err)
	}
	if !wanted.Matches(labels.Set(object.Metadata.Labels)) {
		return fmt.Sprintf("its labels do not match labelSelector %q of its kind", k.LabelSelector), nil
	}
	field, err := fields.ParseSelector(k.FieldSelector)
	if err != nil {
		return "", fmt.Errorf("reading fieldSelector: %w", err)
	}
	known := fields.Set{"metadata.name": o.Name, "metadata.namespace": o.Namespace}
	for _, r := range field.Requirements() {
		if known.Has(r.Field) && (known.Get(r.Field) == r.Value) != (r.Operator != "!=") {
			return fmt.Sprintf("it does not match fieldSelector %q of its kind", k.FieldSelector), nil
		}
	}
	return "", nil
}
