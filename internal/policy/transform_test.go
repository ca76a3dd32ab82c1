// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/internal/checksum"
)

const storage = "spdx.softwarecomposition.kubescape.io"

// apply also checks that a second time changes nothing.
func apply(t require.TestingT, link Link, group, resource, doc string) string {
	transform := New(link)
	once, err := transform.Apply(nil, group, resource, "", []byte(doc))
	require.NoError(t, err, doc)
	twice, err := transform.Apply(nil, group, resource, "", once)
	require.NoError(t, err)
	require.Equal(t, string(once), string(twice), "of %s", doc)
	require.True(t, json.Valid(once), "%s of %s", once, doc)
	return string(once)
}

func TestDefaultPolicy(t *testing.T) {
	for _, c := range []struct {
		name, group, resource string
		before, v1, v2        string // empty v2: as v1
	}{
		{
			name: "nothing to do", resource: "pods",
			before: ` { "a" : 1.0 , "b" : [ 1e3 , 9007199254740993 , "\u003c" ] } `,
			v1:     ` { "a" : 1.0 , "b" : [ 1e3 , 9007199254740993 , "\u003c" ] } `,
		},
		{
			name: "metadata in the middle", resource: "pods",
			before: `{"metadata":{"name":"n","managedFields":[{"a":{}}],"annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":"{}","c":"d"}}}`,
			v1:     `{"metadata":{"name":"n","annotations":{"a":"b","c":"d"}}}`,
		},
		{
			name: "first member", resource: "pods",
			before: `{"metadata":{"managedFields":[], "name":"n"}}`, v1: `{"metadata":{"name":"n"}}`,
		},
		{
			name: "only member", resource: "pods",
			before: `{"metadata":{ "managedFields":[] }}`, v1: `{"metadata":{ }}`,
		},
		{
			name: "annotations become empty", resource: "pods",
			before: `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","kubescape.io/sync-checksum":"x"},"name":"n"}}`,
			v1:     `{"metadata":{"annotations":{},"name":"n"}}`,
		},
		{
			name: "around members that stay", resource: "pods",
			before: `{"metadata":{"managedFields":1 , "managedFields":2,"a":{"managedFields":3},"managedFields":4,"managedF\u0069elds":5,"b":6 ,"managedFields":7 }}`,
			v1:     `{"metadata":{"a":{"managedFields":3},"b":6 }}`,
		},
		{
			name: "only in metadata of the object", resource: "pods",
			before: `{"spec":{"template":{"metadata":{"managedFields":[]}}},"managedFields":1,"metadata":null}`,
			v1:     `{"spec":{"template":{"metadata":{"managedFields":[]}}},"managedFields":1,"metadata":null}`,
		},
		{
			name: "environment", group: "batch", resource: "cronjobs",
			before: `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"initContainers":[{"env":[{"name":"A","value":"a"}]}],"containers":[{"name":"c","env":[{"value":"","name":"E"},{"name":"N","value":null},{"name":"R","valueFrom":{"secretKeyRef":{"key":"value"}}},{"name":"ABSENT"},{"name":"X","val\u0075e":"\"]}"}]}]}}}}}}`,
			v1:     `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"initContainers":[{"env":[{"name":"A","value":"XXXXXX"}]}],"containers":[{"name":"c","env":[{"value":"XXXXXX","name":"E"},{"name":"N","value":null},{"name":"R","valueFrom":{"secretKeyRef":{"key":"value"}}},{"name":"ABSENT"},{"name":"X","val\u0075e":"XXXXXX"}]}]}}}}}}`,
		},
		{
			name: "environment of a CRD", group: "argoproj.io", resource: "workflows",
			before: `{"spec":{"templates":[{"container":{"env":[{"name":"A","value":{"deep":[1]}},{"name":"B","value":1,"value":"2"}]}}]}}`,
			v1:     `{"spec":{"templates":[{"container":{"env":[{"name":"A","value":"XXXXXX"},{"name":"B","value":"XXXXXX","value":"XXXXXX"}]}}]}}`,
		},
		{
			name: "env that is no list of variables", resource: "configmaps",
			before: `{"data":{"env":"[{\"value\":1}]"},"env":{"value":"v"},"x":{"env":["value",["v"],null]},"value":"v"}`,
			v1:     `{"data":{"env":"[{\"value\":1}]"},"env":{"value":"v"},"x":{"env":["value",["v"],null]},"value":"v"}`,
		},
		{
			name: "node", resource: "nodes",
			before: `{"status":{"conditions":[{"type":"Ready"}],"phase":"x"},"spec":{"status":{"conditions":[1]}}}`,
			v1:     `{"status":{"conditions":null,"phase":"x"},"spec":{"status":{"conditions":[1]}}}`,
			v2:     `{"status":{"phase":"x"},"spec":{"status":{"conditions":[1]}}}`,
		},
		{name: "node without conditions", resource: "nodes", before: `{"status":{}}`, v1: `{"status":{}}`},
		{
			name: "conditions of other kinds", resource: "pods",
			before: `{"status":{"conditions":[1]}}`, v1: `{"status":{"conditions":[1]}}`,
		},
		{
			name: "nodes of another group", group: "metrics.k8s.io", resource: "nodes",
			before: `{"status":{"conditions":[1]}}`, v1: `{"status":{"conditions":[1]}}`,
		},
		{
			name: "filtered SBOM", group: storage, resource: "sbomsyftfiltereds",
			before: `{"spec":{"syft":{"artifacts":[1],"artifactRelationships":[2],"files":[3],"source":4,"descriptor":{"a":5}}}}`,
			v1:     `{"spec":{"syft":{"artifacts":[1],"artifactRelationships":null,"files":null,"source":4,"descriptor":null}}}`,
			v2:     `{"spec":{"syft":{"artifacts":[1],"source":4}}}`,
		},
		{
			name: "SBOM", group: storage, resource: "sbomsyfts",
			before: `{"spec":{"syft":{"files":[3],"descriptor":{"a":5},"source":4}}}`,
			v1:     `{"spec":{"syft":{"files":[3],"descriptor":{"a":5},"source":4}}}`,
			v2:     `{"spec":{"syft":{"source":4}}}`,
		},
		{
			name: "secret", resource: "secrets",
			before: `{"metadata":{"name":"s","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":1}"}},"data":{"a":"c2VjcmV0","b":"","n":null},"stringData":{"c":"secret","d":{"e":1}},"type":"Opaque"}`,
			v1:     `{"metadata":{"name":"s","annotations":{}},"data":{"a":"WFhYWFhY","b":"WFhYWFhY","n":null},"stringData":{"c":"XXXXXX","d":"XXXXXX"},"type":"Opaque"}`,
		},
		{
			name: "odd secret", resource: "secrets",
			before: `{"data":["c2VjcmV0"],"stringData":"secret","data":null}`,
			v1:     `{"data":null,"stringData":null,"data":null}`,
		},
		{name: "data of other kinds", resource: "configmaps", before: `{"data":{"a":"b"}}`, v1: `{"data":{"a":"b"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.v2 == "" {
				c.v2 = c.v1
			}
			require.Equal(t, c.v1, apply(t, LinkV1, c.group, c.resource, c.before))
			require.Equal(t, c.v2, apply(t, LinkV2, c.group, c.resource, c.before))
		})
	}
}

func TestGoldenPod(t *testing.T) {
	before, err := os.ReadFile("testdata/pod-before.json")
	require.NoError(t, err)
	after, err := os.ReadFile("testdata/pod-after.json")
	require.NoError(t, err)
	require.Equal(t, string(after), apply(t, LinkV1, "", "pods", string(before)))
	require.Equal(t, string(after), apply(t, LinkV2, "", "pods", string(before)))
}

func TestBuffers(t *testing.T) {
	transform := New(LinkV2)
	same := []byte(`{"metadata":{"name":"n"}}`)
	got, err := transform.Apply(make([]byte, 0, 100), "", "pods", "", same)
	require.NoError(t, err)
	require.Same(t, &same[0], &got[0], "nothing changed, so nothing is copied")

	buf := []byte("old content of a buffer that is long enough")
	got, err = transform.Apply(buf, "", "pods", "", []byte(`{"metadata":{"managedFields":[],"name":"n"}}`))
	require.NoError(t, err)
	require.Equal(t, `{"metadata":{"name":"n"}}`, string(got))
	require.Same(t, &buf[0], &got[0])
}

func TestErrors(t *testing.T) {
	for _, doc := range []string{``, `{`, `{"a":1}x`, `{"metadata":{"managedFields":[}}`, strings.Repeat("[", 1001) + strings.Repeat("]", 1001)} {
		got, err := New(LinkV1).Apply(nil, "", "pods", "", []byte(doc))
		require.ErrorIs(t, err, synchronizer.ErrInvalid, doc)
		require.Nil(t, got)
		_, err = AddTypeMeta(nil, []byte(doc), "v1", "Pod")
		require.ErrorIs(t, err, synchronizer.ErrInvalid, doc)
	}
	apply(t, LinkV1, "", "pods", strings.Repeat(`{"a":[`, 250)+strings.Repeat("]}", 250))
}

func TestAddTypeMeta(t *testing.T) {
	for before, want := range map[string]string{
		`{"metadata":{"name":"n"}}`:                  `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"n"}}`,
		` { "metadata":{}} `:                         ` {"kind":"Deployment","apiVersion":"apps/v1", "metadata":{}} `,
		`{}`:                                         `{"kind":"Deployment","apiVersion":"apps/v1"}`,
		`{"apiVersion":"apps/v1","x":1}`:             `{"kind":"Deployment","apiVersion":"apps/v1","x":1}`,
		`{"x":1,"kind":"Deployment"}`:                `{"apiVersion":"apps/v1","x":1,"kind":"Deployment"}`,
		`{"k\u0069nd":"Other","apiVersion":"x/v1"}`:  `{"k\u0069nd":"Other","apiVersion":"x/v1"}`,
		`{"spec":{"kind":"Other","apiVersion":"x"}}`: `{"kind":"Deployment","apiVersion":"apps/v1","spec":{"kind":"Other","apiVersion":"x"}}`,
	} {
		got, err := AddTypeMeta(nil, []byte(before), "apps/v1", "Deployment")
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := AddTypeMeta(nil, []byte(`[]`), "v1", "Pod")
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
}

// editDecoded is the default policy on decoded objects, the slow and simple way.
func editDecoded(value any, path, resource string, link Link) any {
	omitted := func(resources string, paths ...string) bool {
		for _, p := range paths {
			if path == p && strings.Contains(" "+resources+" ", " "+resource+" ") {
				return true
			}
		}
		return false
	}
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = editDecoded(v[i], path+"[]", resource, link)
		}
	case map[string]any:
		outer := path
		for name, m := range v {
			path = outer + "." + name
			syft := "sbomsyftfiltereds"
			if link == LinkV2 {
				syft += " sbomsyfts"
			}
			switch {
			case omitted(resource, ".metadata.managedFields", ".metadata.annotations.kubescape.io/sync-checksum"):
				delete(v, name)
			case omitted("nodes", ".status.conditions"), omitted(syft, ".spec.syft.files"):
				v[name] = nil
				if link == LinkV2 {
					delete(v, name)
				}
			case m == nil:
			case strings.HasSuffix(path, ".env[].value"):
				v[name] = "XXXXXX"
			case resource == "secrets" && outer == ".data":
				v[name] = "WFhYWFhY"
			case resource == "secrets" && path == ".data" && !isMap(m):
				v[name] = nil
			default:
				v[name] = editDecoded(m, path, resource, link)
			}
		}
	}
	return value
}

func isMap(value any) bool { _, ok := value.(map[string]any); return ok }

func draw(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n"}).Draw(t, "space")
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	n := rapid.IntRange(0, 4).Draw(t, "n")
	switch {
	case depth == 0 || kind == 0:
		return space + rapid.SampledFrom([]string{`1.0`, `9007199254740993`, `"\u003c"`, `""`, `null`, `true`, `{}`, `[]`}).Draw(t, "scalar") + space
	case kind == 1:
		var elements []string
		for range n {
			elements = append(elements, draw(t, depth-1))
		}
		return "[" + strings.Join(elements, ",") + space + "]"
	}
	var members []string
	for range n {
		name := rapid.SampledFrom([]string{"metadata", "managedFields", "annotations", "kubescape.io/sync-checksum", "a", "env", "value", "status", "conditions", "spec", "syft", "files", "data", "e\\u006ev"}).Draw(t, "name")
		value := draw(t, depth-1)
		if name == "env" && rapid.Bool().Draw(t, "list") {
			value = "[" + value + `,{"value":` + draw(t, depth-1) + "}]"
		}
		members = append(members, space+`"`+name+`"`+space+":"+value)
	}
	return space + "{" + strings.Join(members, ",") + space + "}"
}

func TestEqualsEditingOfDecodedObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := draw(t, 5)
		link := rapid.SampledFrom([]Link{LinkV1, LinkV2}).Draw(t, "link")
		resource := rapid.SampledFrom([]string{"pods", "nodes", "secrets", "sbomsyfts", "sbomsyftfiltereds"}).Draw(t, "resource")
		group := ""
		if strings.HasPrefix(resource, "sbom") {
			group = storage
		}
		got := apply(t, link, group, resource, doc)

		want, err := json.Marshal(editDecoded(decode(t, doc), "", resource, link))
		require.NoError(t, err)
		again, err := json.Marshal(decode(t, got))
		require.NoError(t, err)
		require.Equal(t, string(want), string(again), "%s\n%s", doc, got)
	})
}

func decode(t require.TestingT, doc string) any {
	decoder := json.NewDecoder(strings.NewReader(doc))
	decoder.UseNumber()
	var value any
	require.NoError(t, decoder.Decode(&value))
	return value
}

func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"metadata":{"managedFields":1,"a":2,"annotations":{"kubescape.io/sync-checksum":"x"}},"env":[{"value":"v"}]}`))
	f.Add([]byte(`{"status":{"conditions":[]},"data":{"a":"b"},"spec":{"syft":{"files":[],"descriptor":1}}} `))
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, link := range []Link{LinkV1, LinkV2} {
			for _, kind := range [][2]string{{"", "nodes"}, {"", "secrets"}, {storage, "sbomsyftfiltereds"}, {"apps", "deployments"}} {
				original := bytes.Clone(doc)
				got, err := New(link).Apply(nil, kind[0], kind[1], "", doc)
				require.Equal(t, original, doc)
				if err != nil {
					continue
				}
				require.True(t, json.Valid(doc))
				apply(t, link, kind[0], kind[1], string(doc))
				digest, err := checksum.V2(got)
				require.NoError(t, err)
				again, err := New(link).Apply(nil, kind[0], kind[1], "", got)
				require.NoError(t, err)
				same, err := checksum.V2(again)
				require.NoError(t, err)
				require.Equal(t, digest, same)
			}
		}
		if got, err := AddTypeMeta(nil, doc, "v1", "Pod"); err == nil {
			require.True(t, json.Valid(got))
		}
	})
}

func benchmark(b *testing.B, file string, fn func(doc []byte) error) {
	doc, err := os.ReadFile(file)
	require.NoError(b, err)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if err := fn(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	transform, buf := New(LinkV2), make([]byte, 0, 8<<10)
	benchmark(b, "testdata/pod-before.json", func(doc []byte) error {
		_, err := transform.Apply(buf, "", "pods", "", doc)
		return err
	})
}

func BenchmarkApplyWithoutChange(b *testing.B) {
	transform := New(LinkV2)
	benchmark(b, "testdata/pod-after.json", func(doc []byte) error {
		_, err := transform.Apply(nil, "", "pods", "", doc)
		return err
	})
}

func BenchmarkAddTypeMeta(b *testing.B) {
	buf := make([]byte, 0, 8<<10)
	benchmark(b, "testdata/pod-before.json", func(doc []byte) error {
		_, err := AddTypeMeta(buf, doc, "v1", "Pod")
		return err
	})
}
