// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer/internal/rawjson"
)

// lines decodes a file of JSON lines.
func lines[T any](t testing.TB, name string) []T {
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	var all []T
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var one T
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &one))
		all = append(all, one)
	}
	require.NoError(t, scanner.Err())
	return all
}

// B047: nulls inside arrays and objects. What a patch cannot say on link v1 goes
// as a whole object; everything else arrives exactly.
func TestB047NullsInsideArraysAndObjects(t *testing.T) {
	const base = `{"a":{"b":1,"c":2},"l":[1,null,{"k":null}],"t":["x","y"]}`
	for _, c := range []struct{ doc, want string }{
		// The list's new object has a member null, which clients of the field drop.
		{`{"a":{"b":1},"l":[null,{"k":null,"z":0}],"t":[]}`, whole},
		{`{"a":{"b":1},"l":[null,{"z":0}],"t":[]}`, `{"a":{"c":null},"l":[null,{"z":0}],"t":[]}`},
		{`{"a":{"b":1},"l":[1,null,{"k":null}],"t":[]}`, `{"a":{"c":null},"t":[]}`},
		{`{"a":{"b":null},"l":[1,null,{"k":null}],"t":[]}`, whole},
	} {
		patch, exact, err := Diff(nil, []byte(base), []byte(c.doc))
		require.NoError(t, err)
		require.Equal(t, c.want != whole, exact, c.doc)
		if !exact {
			continue
		}
		require.Equal(t, c.want, string(patch))
		got, err := ApplyV1([]byte(base), patch)
		require.NoError(t, err)
		require.JSONEq(t, c.doc, string(got))
	}

	// 10,000 pairs: 100 checks of 100 pairs.
	rapid.Check(t, func(t *rapid.T) {
		for range 100 {
			ordinary := rapid.Bool().Draw(t, "ordinary")
			g := generator{t, ordinary}
			old := g.object(3)
			base, doc := old.append(nil), g.change(old).append(nil)
			checkDiff(t, base, doc, ordinary)
		}
	})
}

// checkDiff says of one pair what must hold of all.
func checkDiff(t require.TestingT, base, doc []byte, ordinary bool) {
	patch, exact, err := Diff(nil, base, doc)
	require.NoError(t, err)
	if !exact {
		require.False(t, ordinary, "base %s document %s", base, doc)
		return
	}
	got, err := ApplyV1(base, patch)
	require.NoError(t, err)
	require.Equal(t, digest(t, doc), digest(t, got), "base %s document %s patch %s result %s", base, doc, patch, got)
	if ordinary {
		checkMinimal(t, decode(t, patch), decode(t, base), decode(t, doc), true)
	}
}

// checkMinimal tells that a patch says nothing that is so already.
func checkMinimal(t require.TestingT, patch, base, doc any, root bool) {
	changes := patch.(map[string]any)
	require.True(t, root || len(changes) > 0)
	for name, change := range changes {
		old, had := base.(map[string]any)[name]
		now, has := doc.(map[string]any)[name]
		_, oldObject := old.(map[string]any)
		_, nowObject := now.(map[string]any)
		switch {
		case !has:
			require.Nil(t, change)
			require.True(t, had)
		case oldObject && nowObject:
			checkMinimal(t, change, old, now, false)
		default:
			require.Equal(t, now, change)
			require.NotEqual(t, old, now)
		}
	}
}

func decode(t require.TestingT, doc []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	return v
}

// value is a JSON value whose members have an order.
type value struct {
	scalar string // if it is neither object nor array
	object bool
	names  []string // of an object, as they are spelled
	items  []value
}

func (v value) append(dst []byte) []byte {
	switch {
	case v.scalar != "":
		return append(dst, v.scalar...)
	case v.object:
		dst = append(dst, '{')
	default:
		dst = append(dst, '[')
	}
	for i, item := range v.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		if v.object {
			dst = append(append(dst, v.names[i]...), ':')
		}
		dst = item.append(dst)
	}
	if v.object {
		return append(dst, '}')
	}
	return append(dst, ']')
}

// generator draws values: ordinary ones, which any patch can carry, or others too.
type generator struct {
	t        *rapid.T
	ordinary bool
}

var (
	ordinaryScalars = strings.Fields(`"" "x" "<&>" "é" "\u0041" true false 0 -1 1.5 1000 9007199254740992 0.1e3`)
	oddScalars      = append(strings.Fields(`null null null 9007199254740993 1e400 0.12345678901234567890`), ordinaryScalars...)
	names           = strings.Fields(`"a" "b" "c" "d" "e" "é"`)
	oddNames        = append(strings.Fields(`"\u0061" "a" "\ufffd"`), append(names, "\"\xff\"")...)
)

func (g generator) value(depth int) value {
	switch kind := rapid.IntRange(0, 5).Draw(g.t, "type"); {
	case kind == 0 && depth > 0:
		return g.array(depth)
	case kind <= 2 && depth > 0:
		return g.object(depth)
	default:
		scalars := oddScalars
		if g.ordinary {
			scalars = ordinaryScalars
		}
		return value{scalar: rapid.SampledFrom(scalars).Draw(g.t, "scalar")}
	}
}

func (g generator) array(depth int) value {
	var v value
	for range rapid.IntRange(0, 3).Draw(g.t, "length") {
		v.items = append(v.items, g.value(depth-1))
	}
	return v
}

func (g generator) object(depth int) value {
	v := value{object: true}
	for range rapid.IntRange(0, 4).Draw(g.t, "members") {
		g.add(&v, depth)
	}
	return v
}

func (g generator) add(v *value, depth int) {
	all := oddNames
	if g.ordinary {
		all = names
	}
	name := rapid.SampledFrom(all).Draw(g.t, "name")
	for _, other := range v.names {
		if other == name && (g.ordinary || rapid.IntRange(0, 3).Draw(g.t, "duplicate") > 0) {
			return
		}
	}
	v.names, v.items = append(v.names, name), append(v.items, g.value(depth-1))
}

// change gives a similar value.
func (g generator) change(v value) value {
	if !v.object {
		switch rapid.IntRange(0, 5).Draw(g.t, "change") {
		case 0:
			return g.value(2)
		case 1:
			if len(v.items) > 0 {
				w := value{items: append([]value(nil), v.items...)}
				at := rapid.IntRange(0, len(w.items)-1).Draw(g.t, "element")
				w.items[at] = g.change(w.items[at])
				return w
			}
		}
		return v
	}
	w := value{object: true}
	for i := range v.items {
		if rapid.IntRange(0, 7).Draw(g.t, "remove") > 0 {
			w.names = append(w.names, v.names[i])
			w.items = append(w.items, g.change(v.items[i]))
		}
	}
	if rapid.IntRange(0, 3).Draw(g.t, "add") == 0 {
		g.add(&w, 2)
	}
	if n := len(w.items); n > 1 && rapid.IntRange(0, 3).Draw(g.t, "swap") == 0 {
		i := rapid.IntRange(0, n-2).Draw(g.t, "place")
		w.names[i], w.names[n-1] = w.names[n-1], w.names[i]
		w.items[i], w.items[n-1] = w.items[n-1], w.items[i]
	}
	return w
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte(`{"a":[{"b":null}],"c":{"d":1}}`), []byte(`{"c":{"d":2},"a":[{"b":null}]}`))
	f.Add([]byte(`{"a":1,"a":2}`), []byte(`{"\u0061":9007199254740993}`))
	f.Fuzz(func(t *testing.T, base, doc []byte) {
		valid := rawjson.Valid(base) && rawjson.Valid(doc)
		_, _, err := Diff(nil, base, doc)
		require.Equal(t, valid, err == nil)
		if valid && len(base) < 1<<16 && len(doc) < 1<<16 && !nestedTooDeep(base, doc) {
			checkDiff(t, base, doc, false)
		}
	})
}

// nestedTooDeep tells that digest cannot wrap one of the documents.
func nestedTooDeep(docs ...[]byte) bool {
	for _, doc := range docs {
		if !rawjson.Valid([]byte(`[` + string(doc) + `]`)) {
			return true
		}
	}
	return false
}
