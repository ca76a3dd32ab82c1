// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

const child = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"shop","uid":"u-1",
 "resourceVersion":"77","generation":9007199254740993,
 "labels":{"app":"web","pod-template-hash":"abc","n\u0031":"\u0041"},
 "annotations":{"a.b/c":"d\n","e":1},
 "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web"},{"kind":"Other"}]},
 "spec":{"containers":[{"image":"nginx:1","name":"c"},{"image":"busybox"}],"initContainers":[{"image":"nginx:1"}],
  "image":"not a container","volumes":[{"image":{"reference":"x"}}],
  "jobTemplate":{"spec":{"ephemeralContainers":[{"image":"debug","nested":{"image":"no"}}]}}}}`

func TestMetadata(t *testing.T) {
	m, err := Metadata([]byte(child))
	require.NoError(t, err)
	label, ok := m.Label("n1")
	require.True(t, ok)
	require.Equal(t, "A", label)
	annotation, ok := m.Annotation("a.b/c")
	require.True(t, ok)
	require.Equal(t, "d\n", annotation)
	_, ok = m.Annotation("e")
	require.False(t, ok, "not a string")
	_, ok = m.Annotation("absent")
	require.False(t, ok)

	m.labels, m.annotations = nil, nil
	require.Equal(t, Meta{
		APIVersion: "v1", Kind: "Pod", Name: "web-1", Namespace: "shop", UID: "u-1", ResourceVersion: "77",
		Generation: 9007199254740993, OwnerKind: "ReplicaSet", OwnerAPIVersion: "apps/v1", HasPodTemplateHash: true,
	}, m)
}

func TestMetadataOfUnusualObjects(t *testing.T) {
	for _, doc := range []string{
		`{}`, `{"metadata":null}`, `{"metadata":{"name":null,"ownerReferences":null,"labels":null,"generation":null}}`,
		`{"metadata":{"name":"old","uid":"1","ownerReferences":[{"kind":"K"}]},"metadata":{"ownerReferences":[]}}`,
	} {
		m, err := Metadata([]byte(doc))
		require.NoError(t, err, doc)
		m.labels = nil
		require.Equal(t, Meta{}, m, doc)
		_, ok := m.Label("x")
		require.False(t, ok)
	}
	for _, doc := range []string{
		`[]`, `1`, ``, `{"kind":1}`, `{"metadata":[]}`, `{"metadata":{"name":1}}`, `{"metadata":{"generation":1.5}}`,
		`{"metadata":{"ownerReferences":{}}}`, `{"metadata":{"ownerReferences":[1]}}`, `{"metadata":{}} {}`,
	} {
		_, err := Metadata([]byte(doc))
		require.ErrorIs(t, err, synchronizer.ErrInvalid, doc)
	}
}

func TestLabelsAndImages(t *testing.T) {
	labels, images, err := LabelsAndImages([]byte(child))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"app": "web", "pod-template-hash": "abc", "n1": "A"}, labels)
	require.Equal(t, []string{"busybox", "debug", "nginx:1"}, images)
	for _, doc := range []string{
		`{}`, `null`, `[[]]`, `{"metadata":1}`, `{"metadata":{"labels":null}}`, `{"metadata":{"labels":{"a":"b","a":1}}}`,
		`{"metadata":{"labels":{"a":"b"}},"metadata":{"name":"x"}}`, `{"metadata":{"labels":{"a":"b"},"labels":[]}}`,
	} {
		labels, images, err = LabelsAndImages([]byte(doc))
		require.NoError(t, err, doc)
		require.Empty(t, labels, doc)
		require.Empty(t, images, doc)
	}
	for _, doc := range []string{``, `{"metadata":`, `{"metadata":{"labels":{"a":"b"}}`, `{} {}`, `{"metadata":{"labels":{"a":"b"}},"x":tru}`} {
		labels, images, err = LabelsAndImages([]byte(doc))
		require.ErrorIs(t, err, ErrSyntax, doc)
		require.Empty(t, labels, doc)
		require.Empty(t, images, doc)
	}
	// Containers count wherever they are, but in metadata.
	for doc, want := range map[string][]string{
		`{"containers":[{"image":"a"}]}`: {"a"}, `[{"containers":[{"image":"a"}]}]`: {"a"}, `{"containers":{"image":"a"}}`: nil,
		`{"x":[{"initContainers":[{"image":"a"},{"image":"a"}]}]}`: {"a"}, `{"metadata":{"containers":[{"image":"a"}]}}`: nil,
	} {
		_, images, err = LabelsAndImages([]byte(doc))
		require.NoError(t, err, doc)
		require.ElementsMatch(t, want, images, doc)
	}
}

func TestMetadataAndImages(t *testing.T) {
	m, images, err := MetadataAndImages([]byte(child))
	require.NoError(t, err)
	want, err := Metadata([]byte(child))
	require.NoError(t, err)
	require.Equal(t, want, m)
	labels, wantImages, err := LabelsAndImages([]byte(child))
	require.NoError(t, err)
	require.Equal(t, wantImages, images)
	require.Equal(t, labels, m.Labels())
	_, images, err = MetadataAndImages([]byte(`{"containers":[{"image":"a"}],"metadata":[]}`))
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	require.Empty(t, images)
}

func BenchmarkLabelsAndImages(b *testing.B) {
	doc := []byte(child)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		_, _, _ = LabelsAndImages(doc)
	}
}

func BenchmarkMetadataAndImages(b *testing.B) {
	doc := []byte(child)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		_, _, _ = MetadataAndImages(doc)
	}
}

func BenchmarkMetadata(b *testing.B) {
	doc := []byte(child)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Metadata(doc)
	}
}
