// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newCache[K comparable](t testing.TB, limit int) *Cache[K] {
	c, err := New[K](limit)
	require.NoError(t, err)
	return c
}

func TestCacheKeepsTheLastBody(t *testing.T) {
	c := newCache[string](t, 1<<20)
	_, ok := c.Get("a", nil)
	require.False(t, ok)
	body := []byte(`{"a":1}`)
	c.Put("a", body)
	body[2] = 'b' // the cache has a copy
	buf := make([]byte, 0, 100)
	got, ok := c.Get("a", buf)
	require.True(t, ok)
	require.Equal(t, `{"a":1}`, string(got))
	require.Same(t, &buf[:1][0], &got[0])
	c.Put("a", []byte(`{"a":2}`))
	got, _ = c.Get("a", nil)
	require.Equal(t, `{"a":2}`, string(got))
	c.Put("empty", nil)
	got, ok = c.Get("empty", nil)
	require.True(t, ok)
	require.Empty(t, got)
	require.Equal(t, 2, c.Len())
	c.Remove("empty")
	c.RemoveFunc(func(key string) bool { return key == "a" })
	c.Remove("absent")
	require.Zero(t, c.Len())
	require.Zero(t, c.Bytes())
}

func TestCacheEvictsWhatWasNotUsedForLongest(t *testing.T) {
	c := newCache[int](t, 8<<10)
	body := noise(512)
	for i := range 8 {
		c.Put(i, body)
	}
	_, ok := c.Get(0, nil)
	require.True(t, ok)
	for i := 8; i < 14; i++ {
		c.Put(i, body)
	}
	_, used := c.Get(0, nil)
	_, unused := c.Get(1, nil)
	require.True(t, used)
	require.False(t, unused)
	require.LessOrEqual(t, c.Bytes(), 8<<10)
}

func TestCacheRefusesVeryLargeBodies(t *testing.T) {
	c := newCache[string](t, 64<<10)
	c.Put("small", []byte(`{}`))
	c.Put("large", []byte(`{"was":"small"}`))
	c.Put("large", bytes.Repeat([]byte("x"), 8<<10+1)) // would be small, compressed
	_, ok := c.Get("large", nil)
	require.False(t, ok, "an older body must not stay")
	require.Equal(t, 1, c.Len())
	c.Put("large", bytes.Repeat([]byte("x"), 8<<10))
	require.Equal(t, 2, c.Len())
}

func TestCacheWithoutRoomKeepsNothing(t *testing.T) {
	for _, limit := range []int{-1, 0, 1, overhead} {
		c := newCache[string](t, limit)
		c.Put("a", nil)
		c.Put("b", []byte("{}"))
		require.Zero(t, c.Len())
		require.Zero(t, c.Bytes())
	}
}

// The model is a list in the order of use.
func TestCacheAgreesWithModel(t *testing.T) {
	bodies := [][]byte{nil, []byte("{}"), noise(100), noise(900), noise(1024), noise(1025), bytes.Repeat([]byte("ab"), 500)}
	rapid.Check(t, func(t *rapid.T) {
		const limit = 8 << 10
		c, err := New[int](limit)
		require.NoError(t, err)
		type item struct {
			key  int
			body []byte
			cost int
		}
		var model []item // longest unused first
		used := 0
		take := func(key int) (item, bool) {
			at := slices.IndexFunc(model, func(i item) bool { return i.key == key })
			if at < 0 {
				return item{}, false
			}
			i := model[at]
			model = slices.Delete(model, at, at+1)
			used -= i.cost
			return i, true
		}
		key := rapid.IntRange(0, 15)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, body := key.Draw(t, "key"), rapid.SampledFrom(bodies).Draw(t, "body")
				c.Put(k, body)
				take(k)
				if len(body) > limit/largest {
					return
				}
				cost := overhead + cap(bytes.Clone(c.encoder.EncodeAll(body, nil)))
				for used+cost > limit {
					take(model[0].key)
				}
				model = append(model, item{k, body, cost})
				used += cost
			},
			"get": func(t *rapid.T) {
				k := key.Draw(t, "key")
				got, ok := c.Get(k, nil)
				want, known := take(k)
				require.Equal(t, known, ok)
				if known {
					require.True(t, bytes.Equal(want.body, got))
					model = append(model, want)
					used += want.cost
				}
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "key")
				c.Remove(k)
				take(k)
			},
			"removeFunc": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "seldom") > 0 {
					return
				}
				c.RemoveFunc(func(k int) bool { return k%2 == 0 })
				for k := range 16 {
					if k%2 == 0 {
						take(k)
					}
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, used, c.Bytes())
				require.Equal(t, len(model), c.Len())
				require.LessOrEqual(t, c.Bytes(), limit)
			},
		})
	})
}

func TestCacheConcurrently(t *testing.T) {
	type key struct{ owner, name int }
	c := newCache[key](t, 64<<10)
	var group sync.WaitGroup
	for owner := range 8 {
		group.Go(func() {
			var buf []byte
			for i := range 300 {
				k := key{owner, i % 30}
				want := fmt.Sprintf(`{"owner":%d,"i":%d}`, owner, i)
				c.Put(k, []byte(want))
				if got, ok := c.Get(k, buf); ok {
					if string(got) != want {
						t.Errorf("got %s, want %s", got, want)
					}
					buf = got
				}
				if i%7 == 0 {
					c.Remove(k)
				}
			}
			c.RemoveFunc(func(k key) bool { return k.owner == owner })
		})
	}
	group.Wait()
	require.Zero(t, c.Bytes())
}

// What the cache says it uses is what it costs.
func TestCacheCountsItsMemory(t *testing.T) {
	type key struct {
		owner     *int
		namespace *string
		name      string
	}
	const limit = 4 << 20
	before := heap()
	c := newCache[key](t, limit)
	owner, namespace := new(int), new(string)
	for i := range 3_000 {
		c.Put(key{owner, namespace, fmt.Sprintf("web-5d4f8c7b9d-%05d", i)}, variant(t, i))
	}
	require.Greater(t, c.Bytes(), limit*9/10)
	after := heap()
	t.Logf("%d objects, %d KiB counted, %d KiB of heap with compressor and decompressor", c.Len(), c.Bytes()>>10, (after-before)>>10)
	require.Less(t, after-before, c.Bytes()+1<<20)
	runtime.KeepAlive(c)
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

var pod = sync.OnceValue(func() string {
	body, err := os.ReadFile("testdata/pod.json")
	if err != nil {
		panic(err)
	}
	return string(body)
})

// variant is a Pod with names and identifiers of its own.
func variant(t testing.TB, i int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	id := fmt.Sprintf("%08x-e344-%04x-9af6-%012x", r.Uint32(), r.Uint32()&0xffff, r.Uint64()&0xffffffffffff)
	text := strings.ReplaceAll(pod(), "74c29845-e344-4339-9af6-c193c55d1f65", id)
	text = strings.ReplaceAll(text, "x2x4z", fmt.Sprintf("%05x", r.Uint32()&0xfffff))
	require.NotEqual(t, pod(), text)
	return []byte(text)
}

func noise(n int) []byte {
	r := rand.New(rand.NewPCG(2, uint64(n)))
	body := make([]byte, n)
	for i := range body {
		body[i] = byte(r.Uint32())
	}
	return body
}

func BenchmarkPut(b *testing.B) {
	c := newCache[int](b, DefaultLimit)
	var bodies [64][]byte
	for i := range bodies {
		bodies[i] = variant(b, i)
	}
	b.SetBytes(int64(len(bodies[0])))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		c.Put(i, bodies[i%len(bodies)])
		i++
	}
	b.ReportMetric(float64(c.Bytes())/float64(c.Len()), "B/entry")
	b.ReportMetric(float64(DefaultLimit*c.Len())/float64(c.Bytes()), "entries/32MiB")
}

func BenchmarkGet(b *testing.B) {
	c := newCache[int](b, DefaultLimit)
	for i := range 64 {
		c.Put(i, variant(b, i))
	}
	b.ReportAllocs()
	var buf []byte
	i := 0
	for b.Loop() {
		var ok bool
		if buf, ok = c.Get(i%64, buf); !ok {
			b.Fatal("lost")
		}
		i++
	}
	b.SetBytes(int64(len(buf)))
}
