// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/filter"
	"synchronizer/internal/kube/kubefake"
	"synchronizer/internal/policy"
)

var configMaps = synchronizer.Kind{Version: "v1", Resource: "configmaps"}

func key(name string) Key { return Key{Kind: configMaps, Namespace: "default", Name: name} }

func TestCompare(t *testing.T) {
	live := Set{key("same"): {UID: "1", Checksum: "a"}, key("changed"): {UID: "2", Checksum: "b"}, key("again"): {UID: "3", Checksum: "c"}, key("new"): {UID: "4", Checksum: "d"}}
	stored := Set{key("same"): {UID: "1", Checksum: "a"}, key("changed"): {UID: "2", Checksum: "x"}, key("again"): {UID: "old", Checksum: "c"}, key("gone"): {UID: "5", Checksum: "e"}}
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

// A client does not tell a change of the resourceVersion alone, though checksum
// v1 covers it: the object agrees with a row that has an older one.
func TestResourceVersionAloneIsNoDifference(t *testing.T) {
	cluster := kubefake.New()
	cluster.Put(configMaps, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","uid":"u"},"data":{"k":"1"}}`))
	scope := Scope{Kinds: []synchronizer.Kind{configMaps}, Transform: policy.New(policy.LinkV1)}
	const older = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","resourceVersion":"0","uid":"u"},"data":{"k":"%s"}}`
	for value, want := range map[string]bool{"1": true, "2": false} {
		sum, err := checksum.ObjectV1(fmt.Appendf(nil, older, value))
		require.NoError(t, err)
		scope.Stored = Set{key("a"): {UID: "u", Checksum: sum, ResourceVersion: "0"}}
		live, _, err := Live(t.Context(), cluster, scope)
		require.NoError(t, err)
		require.Equal(t, want, Compare(live, scope.Stored).Equal(), "data is %s", value)
	}
}
