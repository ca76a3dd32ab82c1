// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer/internal/rawjson"
)

func TestApplyV1(t *testing.T) {
	for name, c := range map[string]struct{ base, patch, want string }{
		"nothing":                             {`{"a":1}`, `{}`, `{"a":1}`},
		"replace keeps order":                 {`{"b":1,"a":2}`, `{"b":3}`, `{"b":3,"a":2}`},
		"remove":                              {`{"a":1,"b":2}`, `{"a":null}`, `{"b":2}`},
		"add":                                 {`{"a":1}`, `{"z":{"y":1,"x":null}}`, `{"a":1,"z":{"y":1}}`},
		"nested":                              {`{"m":{"l":{"x":"1"},"n":1.0}}`, `{"m":{"l":{"y":"2"}}}`, `{"m":{"l":{"x":"1","y":"2"},"n":1.0}}`},
		"array replaces":                      {`{"a":[1,2,3]}`, `{"a":[]}`, `{"a":[]}`},
		"nulls in arrays (habit 13)":          {`{}`, `{"list":[{"k":null,"m":1},null]}`, `{"list":[{"m":1},null]}`},
		"scalar becomes object":               {`{"a":1}`, `{"a":{"b":2,"c":null}}`, `{"a":{"b":2}}`},
		"base is not an object":               {`[1]`, `{"a":1}`, `{"a":1}`},
		"patch is not an object":              {`{"a":1}`, `[{"x":null}]`, `[{}]`},
		"numbers and escapes stay":            {`{"i":9007199254740993,"e":1e3,"s":"\u0041"}`, `{"x":1.0}`, `{"i":9007199254740993,"e":1e3,"s":"\u0041","x":1.0}`},
		"keys compare decoded":                {`{"\u0061":1}`, `{"a":2}`, `{"\u0061":2}`},
		"last duplicate wins":                 {`{"a":1,"a":2}`, `{"b":1,"b":null}`, `{"a":2}`},
		"a recorded patch":                    {`{"metadata":{"generation":1,"resourceVersion":"202"},"spec":{"replicas":1}}`, `{"metadata":{"generation":2,"resourceVersion":"5298"},"spec":{"replicas":2}}`, `{"metadata":{"generation":2,"resourceVersion":"5298"},"spec":{"replicas":2}}`},
		"white space around values stays out": {`{ "a" : 1 , "b" : 2 }`, `{"b": [ 1 ] }`, `{"a":1,"b":[1]}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ApplyV1([]byte(c.base), []byte(c.patch))
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestApplyV1RefusesWhatIsNotJSON(t *testing.T) {
	for _, c := range [][2]string{{`{`, `{}`}, {`{}`, `{"a":}`}, {``, `{}`}, {`{}`, `{} x`}} {
		_, err := ApplyV1([]byte(c[0]), []byte(c[1]))
		require.Error(t, err, c)
	}
}

// Without nulls inside arrays, link v1's rule is the RFC's: a second
// implementation must agree.
func TestApplyV1AgreesWithTheRFC(t *testing.T) {
	value := anyValue
	rapid.Check(t, func(t *rapid.T) {
		base, _ := json.Marshal(map[string]any{"m": value(true).Draw(t, "base")})
		patch, _ := json.Marshal(map[string]any{"m": value(false).Draw(t, "patch")})
		want, err := jsonpatch.MergePatch(base, patch)
		require.NoError(t, err)
		got, err := ApplyV1(base, patch)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got), "base %s patch %s", base, patch)
	})
}

func anyValue(arrays bool) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any { return draw(t, 3, arrays) })
}

func draw(t *rapid.T, depth int, arrays bool) any {
	kinds := []string{"object", "string", "number", "null"}
	if arrays {
		kinds = append(kinds, "array")
	}
	switch k := rapid.SampledFrom(kinds).Draw(t, "type"); {
	case k == "string" || depth == 0:
		return rapid.SampledFrom([]string{"", "x", "<&>", "é"}).Draw(t, "string")
	case k == "number":
		return rapid.IntRange(-3, 3).Draw(t, "number")
	case k == "null":
		return nil
	case k == "array":
		var list []any
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, draw(t, depth-1, arrays))
		}
		return list
	}
	object := map[string]any{}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4).Draw(t, "keys") {
		object[key] = draw(t, depth-1, arrays)
	}
	return object
}

func FuzzApplyV1(f *testing.F) {
	f.Add([]byte(`{"a":[{"b":null}]}`), []byte(`{"a":null}`))
	f.Fuzz(func(t *testing.T, base, patch []byte) {
		got, err := ApplyV1(base, patch)
		if err == nil && !rawjson.Valid(got) {
			t.Fatalf("%q patched with %q gives %q", base, patch, got)
		}
	})
}
