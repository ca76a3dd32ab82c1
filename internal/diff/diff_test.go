// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/filter"
	"synchronizer/internal/kube/kubefake"
	"synchronizer/internal/policy"
)

var configMaps = synchronizer.Kind{Version: "v1", Resource: "configmaps"}

func key(name string) Key { return Key{Kind: configMaps, Namespace: "default", Name: name} }

func TestCompare(t *testing.T) {
	live := Set{key("same"): {"1", "a"}, key("changed"): {"2", "b"}, key("again"): {"3", "c"}, key("new"): {"4", "d"}}
	stored := Set{key("same"): {"1", "a"}, key("changed"): {"2", "x"}, key("again"): {"old", "c"}, key("gone"): {"5", "e"}}
	r := Compare(live, stored)
	require.Equal(t, Report{
		Agree:     1,
		Missing:   []string{"/v1/configmaps default/new"},
		Extra:     []string{"/v1/configmaps default/gone"},
		Different: []string{"/v1/configmaps default/again", "/v1/configmaps default/changed"},
	}, r)
	require.False(t, r.Equal())
	require.True(t, Compare(live, live).Equal())
}

// The live side sees an object as it leaves the cluster: filtered and masked.
func TestLiveAppliesTheRules(t *testing.T) {
	cluster := kubefake.New()
	cluster.Put(configMaps, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","uid":"u","managedFields":[]}}`))
	cluster.Put(configMaps, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","namespace":"hidden","uid":"v"}}`))
	scope := Scope{
		Kinds:     []synchronizer.Kind{configMaps, {Group: "example.com", Version: "v1", Resource: "widgets"}},
		Filter:    filter.New(filter.Rules{ExcludeNamespaces: []string{"hidden"}}),
		Transform: policy.New(policy.LinkV1),
	}
	live, _, err := Live(t.Context(), cluster, scope)
	require.NoError(t, err)
	require.Len(t, live, 1)
	require.Equal(t, "u", live[key("a")].UID)
	scope.Transform = policy.New(policy.LinkV1)
	scope.Filter = nil
	live, _, err = Live(t.Context(), cluster, scope)
	require.NoError(t, err)
	require.Len(t, live, 2)
}
