// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/internal/store/index"
)

func TestOf(t *testing.T) {
	key := synchronizer.ObjectKey{Namespace: "team-One", Name: "web-7d8f"}
	body := []byte(`{"metadata":{"labels":{"app":"Shop/Cart","n":1,"e":""}},
		"spec":{"containers":[{"image":"registry.example.org/nginx:1.25"}],"image":"not-one"}}`)
	entry := index.Of(&key, body)
	require.Equal(t, index.Labels(`{"app":"Shop/Cart","e":""}`), entry.Labels)
	require.Len(t, entry.Labels.Hashes(), 2)
	for _, found := range []string{"web", "7d8f", "7D8F", "team one", "shop", "CART", "nginx", "registry.example.org/nginx:1.25", "25 web"} {
		require.NotEmpty(t, index.Search(found), found)
		require.True(t, entry.Words.Contain(index.Search(found)), found)
	}
	for _, absent := range []string{"we", "web7d8f", "not", "app", "nginx apache", "26"} {
		require.False(t, entry.Words.Contain(index.Search(absent)), absent)
	}
	require.Empty(t, index.Search("- a / 1 .\xff"))
	require.NotEmpty(t, index.Search("日本"))

	broken := index.Of(&key, []byte(`{"metadata":{"labels":{"app":"x"}}`))
	require.Empty(t, broken.Labels)
	require.True(t, broken.Words.Contain(index.Search("web")))
	require.Equal(t, broken, index.Of(&key, nil))
}

func TestWordsAreBounded(t *testing.T) {
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, "w%d ", i)
	}
	entry := index.Of(&synchronizer.ObjectKey{Namespace: many.String(), Name: "found"}, nil)
	require.LessOrEqual(t, len(entry.Words), 128)
	require.True(t, entry.Words.Contain(index.Search("found")), "the name comes first")
	long := strings.Repeat("x", 100_000)
	require.True(t, index.Of(&synchronizer.ObjectKey{Name: long}, nil).Words.Contain(index.Search(long)))
}

// Databases hold the hashes of words, so they are the same for ever, however many
// words there are and whoever asks at the same time.
func TestWordHashes(t *testing.T) {
	t.Parallel()
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for i := range 20_000 {
				word := fmt.Sprintf("w%d", i/2) // each twice, and more than are remembered
				sum := sha256.Sum256([]byte(word))
				want := int64(binary.BigEndian.Uint64(sum[:]) >> 16)
				if got := index.Search(word); len(got) != 1 || got[0] != want {
					t.Errorf("%s: %v, not %d", word, got, want)
					return
				}
			}
		})
	}
	readers.Wait()
}

func TestWordsSum(t *testing.T) {
	require.Zero(t, index.Search("").Sum())
	require.NotEqual(t, index.Search("ab cd").Sum(), index.Search("ab ce").Sum())
	require.Equal(t, index.Search("ab cd").Sum(), index.Search("CD ab").Sum())
}

func TestChange(t *testing.T) {
	removed, added := index.Change([]int64{1, 2, 4}, []int64{2, 3, 4, 5})
	require.Equal(t, []int64{1}, removed)
	require.Equal(t, []int64{3, 5}, added)
}

// TestLabelsAreWrittenAsJSON: what is stored must not depend on who writes it, or
// the labels of an object seem to have changed.
func TestLabelsAreWrittenAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.MapOfN(rapid.String(), rapid.StringMatching(`[a-z<>&"\\é\x7f]*`), 1, 5).Draw(t, "labels")
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
		require.NoError(t, err)
		want, err := json.Marshal(labels)
		require.NoError(t, err)
		require.Equal(t, string(want), string(index.Of(&synchronizer.ObjectKey{Name: "x"}, body).Labels))
	})
}
