// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadKeepsTheBytesOfJSON(t *testing.T) {
	const first, second = `{ "kind":"Pod","apiVersion":"v1", "metadata":{"name":"a"}, "x": [1.0, 1e3, 9007199254740993, "\u003c"] }`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"b","namespace":"n"}}`
	for _, text := range []string{first + "\n" + second, "\ufeff" + first + second, `{"apiVersion":"v1","kind":"List","items":[` + first + " , " + second + `]}`} {
		objects, err := Read(strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, []Object{
			{APIVersion: "v1", Kind: "Pod", Name: "a", JSON: []byte(first)},
			{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "n", Name: "b", JSON: []byte(second)},
		}, objects)
		require.Equal(t, []string{"", "v1", "apps", "v1"}, []string{objects[0].Group(), objects[0].Version(), objects[1].Group(), objects[1].Version()})
	}
	objects, err := Read(strings.NewReader(`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}}]}`))
	require.NoError(t, err)
	require.Equal(t, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`, string(objects[0].JSON))
}

func TestReadYAML(t *testing.T) {
	objects, err := Read(strings.NewReader("# comment\n---\napiVersion: v1\nkind: Pod\nx: 9007199254740993\n---\n---\napiVersion: v1\nkind: Node\n...\n"))
	require.NoError(t, err)
	require.Equal(t, []Object{
		{APIVersion: "v1", Kind: "Pod", YAML: true, JSON: []byte(`{"apiVersion":"v1","kind":"Pod","x":9007199254740993}`)},
		{APIVersion: "v1", Kind: "Node", YAML: true, JSON: []byte(`{"apiVersion":"v1","kind":"Node"}`)},
	}, objects)
}

func TestChanges(t *testing.T) {
	changes, err := Changes(
		[]byte(`{"a":{"b/c":1,"d":2,"same":[1.0]},"l":[{"x":"old"},{"x":"old"}],"e":[1,2],"n":{"x":1}}`),
		[]byte(`{"a":{"d":"XXXXXX","same":[1.0]},"l":[{"x":"XXXXXX"},null],"e":[],"n":null}`))
	require.NoError(t, err)
	var lines []string
	for _, c := range changes {
		lines = append(lines, c.String())
	}
	require.Equal(t, []string{
		"- a['b/c']", `~ a.d = "XXXXXX"`, "- e[*]", `~ l[0].x = "XXXXXX"`, "~ l[1] = null", "~ n = null",
	}, lines)
	_, err = Changes([]byte(`{`), []byte(`{}`))
	require.Error(t, err)
}

func TestPlurals(t *testing.T) {
	for kind, want := range map[string]string{
		"Pod": "pods", "Ingress": "ingresses", "NetworkPolicy": "networkpolicies", "Gateway": "gateways",
		"Endpoints": "endpoints", "StorageClass": "storageclasses", "SBOMSyft": "sbomsyfts",
	} {
		require.Equal(t, want, Plurals(kind)[0])
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{`{"apiVersion":"v1","kind":"List","items":[{}]}`, "apiVersion: v1\nkind: Pod\n---\n", "{", "a: [", "[1]", `{"kind":"List","apiVersion":"v1","items":null}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := Read(strings.NewReader(text))
		require.Equal(t, err != nil, len(objects) == 0)
		for i := range objects {
			_, err := Changes(objects[i].JSON, objects[i].JSON)
			require.NoError(t, err)
		}
	})
}
