// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/filter"
)

var (
	pods        = synchronizer.Kind{Version: "v1", Resource: "pods"}
	configmaps  = synchronizer.Kind{Version: "v1", Resource: "configmaps"}
	jobs        = synchronizer.Kind{Group: "batch", Version: "v1", Resource: "jobs"}
	replicasets = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "replicasets"}
	deployments = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}
	widgetPods  = synchronizer.Kind{Group: "example.com", Version: "v1", Resource: "pods"}
)

func owned(apiVersion, kind string) string {
	return `{"metadata":{"name":"x","ownerReferences":[{"apiVersion":"` + apiVersion + `","kind":"` + kind + `"}]}}`
}

func TestNamespaces(t *testing.T) {
	tests := map[string]struct {
		rules     filter.Rules
		namespace string
		want      bool
	}{
		"no rules":                         {filter.Rules{}, "a", true},
		"included":                         {filter.Rules{IncludeNamespaces: []string{"a"}}, "a", true},
		"not included":                     {filter.Rules{IncludeNamespaces: []string{"a"}}, "b", false},
		"excluded":                         {filter.Rules{ExcludeNamespaces: []string{"a"}}, "a", false},
		"not excluded":                     {filter.Rules{ExcludeNamespaces: []string{"a"}}, "b", true},
		"inclusion wins":                   {filter.Rules{IncludeNamespaces: []string{"a"}, ExcludeNamespaces: []string{"a"}}, "a", true},
		"inclusion wins over the unlisted": {filter.Rules{IncludeNamespaces: []string{"a"}, ExcludeNamespaces: []string{"b"}}, "c", false},
		"cluster-scoped is exempt":         {filter.Rules{IncludeNamespaces: []string{"a"}}, "", true},
		"operator is exempt":               {filter.Rules{IncludeNamespaces: []string{"a"}, OperatorNamespace: "op"}, "op", true},
		"operator excluded is exempt":      {filter.Rules{ExcludeNamespaces: []string{"op"}, OperatorNamespace: "op"}, "op", true},
		"names are taken as they are":      {filter.Rules{ExcludeNamespaces: []string{" a"}}, "a", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := filter.New(test.rules)
			require.Equal(t, test.want, f.Namespace(test.namespace))
			got, err := f.Allows(configmaps, test.namespace, nil)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestChildWorkloads(t *testing.T) {
	orphan := `{"metadata":{"name":"x","labels":{"pod-template-hash":"1"}}}`
	tests := map[string]struct {
		kind      synchronizer.Kind
		namespace string
		doc       string
		want      bool
	}{
		"bare pod":                            {pods, "a", `{"metadata":{"name":"x"}}`, true},
		"pod of a replica set":                {pods, "a", owned("apps/v1", "ReplicaSet"), false},
		"pod of a job":                        {pods, "a", owned("batch/v1", "Job"), false},
		"pod of an old job":                   {pods, "a", owned("batch/v1beta1", "Job"), false},
		"pod of a node":                       {pods, "a", owned("v1", "Node"), true},
		"pod of an operator":                  {pods, "a", owned("example.com/v1", "Widget"), true},
		"orphan with the label":               {pods, "a", orphan, false},
		"owned elsewhere, with the label":     {pods, "a", `{"metadata":{"labels":{"pod-template-hash":"1"},"ownerReferences":[{"apiVersion":"v1","kind":"Node"}]}}`, true},
		"only the first owner counts":         {pods, "a", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node"},{"apiVersion":"apps/v1","kind":"ReplicaSet"}]}}`, true},
		"job of a cron job":                   {jobs, "a", owned("batch/v1", "CronJob"), false},
		"bare job":                            {jobs, "a", `{"metadata":{}}`, true},
		"replica set of a deployment":         {replicasets, "a", owned("apps/v1", "Deployment"), false},
		"bare replica set with the label":     {replicasets, "a", orphan, true},
		"other kinds are never children":      {deployments, "a", owned("apps/v1", "Deployment"), true},
		"other groups are never children":     {widgetPods, "a", owned("apps/v1", "Deployment"), true},
		"children of the operator's own":      {pods, "op", owned("apps/v1", "ReplicaSet"), true},
		"excluded namespaces are left unread": {pods, "no", "not JSON", false},
	}
	rules := filter.Rules{ExcludeNamespaces: []string{"no"}, OperatorNamespace: "op"}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := filter.New(rules).Allows(test.kind, test.namespace, []byte(test.doc))
			require.NoError(t, err)
			require.Equal(t, test.want, got)

			rules := rules
			rules.IncludeChildWorkloads = true
			got, err = filter.New(rules).Allows(test.kind, test.namespace, []byte(test.doc))
			require.NoError(t, err)
			require.Equal(t, test.namespace != "no", got)
		})
	}
}

func TestUnreadableIsNamed(t *testing.T) {
	allowed, err := filter.New(filter.Rules{}).Allows(pods, "a", []byte(`{"metadata":`))
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	require.True(t, allowed)
}

func TestNilAllowsAll(t *testing.T) {
	var f *filter.Filter
	allowed, err := f.Allows(pods, "a", []byte("not JSON"))
	require.NoError(t, err)
	require.True(t, allowed)
}

func TestListsAreCopied(t *testing.T) {
	names := []string{"a"}
	f := filter.New(filter.Rules{ExcludeNamespaces: names})
	names[0] = "b"
	require.False(t, f.Namespace("a"))
}
