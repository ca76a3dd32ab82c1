// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func stableSum(text string) string {
	full := sha256.Sum256([]byte(text))
	return hex.EncodeToString(full[:16])
}

func TestSetDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			namespace, name string
			digest          Digest
		}
		entries := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) entry {
			return entry{rapid.StringN(0, 3, -1).Draw(t, "ns"), rapid.StringN(1, 3, -1).Draw(t, "name"), Digest{rapid.Byte().Draw(t, "digest")}}
		}), 1, 20, func(e entry) entry { return e }).Draw(t, "entries")
		var a, b, one, other Set
		for i, e := range entries {
			a.Add(e.namespace, e.name, e.digest)
			half := &one
			if i%2 == 0 {
				half = &other
			}
			half.Add(e.namespace, e.name, e.digest)
		}
		for _, e := range rapid.Permutation(entries).Draw(t, "order") {
			b.Add(e.namespace, e.name, e.digest)
		}
		require.Equal(t, a, b)
		require.EqualValues(t, len(entries), a.Count)
		one.Merge(other)
		require.Equal(t, a, one)
		gone := entries[0]
		b.Remove(gone.namespace, gone.name, gone.digest)
		require.NotEqual(t, a.Hash, b.Hash)
		for _, e := range entries[1:] {
			b.Remove(e.namespace, e.name, e.digest)
		}
		require.Equal(t, Set{}, b)
	})
}

func TestSetKeepsNamesApart(t *testing.T) {
	var a, b Set
	a.Add("ab", "c", Digest{})
	b.Add("a", "bc", Digest{})
	require.NotEqual(t, a, b)
	require.NotEqual(t, Hollow("u", "12"), Hollow("u1", "2"))
	require.NotPanics(t, func() { Hollow(strings.Repeat("u", 10_000), "") })
}

func benchmark(b *testing.B, fn func(doc []byte) error) {
	doc, err := os.ReadFile("testdata/pod.json")
	require.NoError(b, err)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if err := fn(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkV1(b *testing.B) {
	benchmark(b, func(doc []byte) error { _, err := ObjectV1(doc); return err })
}

func BenchmarkV2(b *testing.B) {
	benchmark(b, func(doc []byte) error { _, err := V2(doc); return err })
}

func BenchmarkSetAdd(b *testing.B) {
	var s Set
	b.ReportAllocs()
	for b.Loop() {
		s.Add("payments", "web-5d4f8c7b9d-x2x4z", Digest{1})
	}
}
