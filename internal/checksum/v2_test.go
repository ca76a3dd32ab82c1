// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

// A document as the tests make it: scalar text, list, or members in order.
type (
	scalar  string
	list    []any
	member  struct{ name, value any }
	members []member
)

var names = []string{"a", "b", "ab", "", "status", "conditions", "status.conditions", "metadata", "resourceVersion", "managedFields", "ä", "\U0001d11e", "\uff5e", `q"\`}

var scalars = []string{
	`0`, `-0`, `1`, `1.0`, `1000`, `1e3`, `10.5`, `0.1`, `-7`, `9007199254740992`, `9007199254740993`, `1e-7`, `12E+2`,
	`true`, `false`, `null`, `""`, `"true"`, `"x"`, `"<&>"`, `"\u003c\ud83d\ude00"`, `"\ud800"`, `"a\n\u0001"`, "\"\u2028é\"",
}

func drawValue(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 || kind < 2 {
		return scalar(rapid.SampledFrom(scalars).Draw(t, "scalar"))
	}
	n := rapid.IntRange(0, 4).Draw(t, "n")
	if kind == 2 {
		l := list{}
		for range n {
			l = append(l, drawValue(t, depth-1))
		}
		return l
	}
	m := members{}
	for range n {
		m = append(m, member{rapid.SampledFrom(names).Draw(t, "name"), drawValue(t, depth-1)})
	}
	return m
}

// drawText writes a value with random white space and escapes of names.
func drawText(t *rapid.T, value any) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", "", " ", "\n\t"}).Draw(t, "space") }
	switch v := value.(type) {
	case list:
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = drawText(t, v[i])
		}
		return space() + "[" + strings.Join(texts, ",") + space() + "]" + space()
	case members:
		texts := make([]string, len(v))
		for i, m := range v {
			name, _ := json.Marshal(m.name)
			text := string(name)
			if rapid.Bool().Draw(t, "escape") {
				text = strings.Replace(text, "a", `\u0061`, 1)
			}
			texts[i] = space() + text + space() + ":" + drawText(t, m.value)
		}
		return "{" + strings.Join(texts, ",") + space() + "}"
	default:
		return space() + string(value.(scalar)) + space()
	}
}

// model is the canonical form of a value by the slow and simple way.
func model(value any, path string) string {
	switch v := value.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(v.String())
		if !ok {
			return "not a number"
		}
		return r.String()
	case []any:
		texts := []string{}
		for _, element := range v {
			texts = append(texts, model(element, path+"[]"))
		}
		return "[" + strings.Join(texts, ",") + "]"
	case map[string]any:
		texts := map[string]string{}
		for name, m := range v {
			if p := path + "." + name; p != ".metadata.resourceVersion" && p != ".metadata.managedFields" {
				texts[name] = model(m, p)
			}
		}
		return fmt.Sprintf("%q", texts) // fmt sorts maps
	default:
		return fmt.Sprintf("%#v", v)
	}
}

func modelOf(t require.TestingT, text string) string {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	require.NoError(t, decoder.Decode(&value))
	return model(value, "")
}

// shuffle reorders members, keeping the order of those with equal names.
func shuffle(t *rapid.T, value any) any {
	switch v := value.(type) {
	case list:
		l := list{}
		for _, element := range v {
			l = append(l, shuffle(t, element))
		}
		return l
	case members:
		last := map[any]any{}
		for _, m := range v {
			last[m.name] = m.value
		}
		var order []string
		for _, name := range names {
			if _, ok := last[name]; ok {
				order = append(order, name)
			}
		}
		m := members{}
		if len(order) > 0 {
			for _, name := range rapid.Permutation(order).Draw(t, "order") {
				m = append(m, member{name, shuffle(t, last[name])})
			}
		}
		return m
	default:
		return v
	}
}

func TestV2IgnoresOrderAndSpace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := drawValue(t, 4)
		a, b := drawText(t, value), drawText(t, shuffle(t, value))
		first, err := V2([]byte(a))
		require.NoError(t, err, a)
		second, err := V2([]byte(b))
		require.NoError(t, err, b)
		require.Equal(t, first, second, "%s\n%s", a, b)
	})
}

// Two documents have one digest exactly if the model says that they are equal.
func TestV2TellsDocumentsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := drawValue(t, 3)
		a, b := drawText(t, value), drawText(t, mutate(t, value))
		first, err := V2([]byte(a))
		require.NoError(t, err)
		second, err := V2([]byte(b))
		require.NoError(t, err)
		require.Equal(t, modelOf(t, a) == modelOf(t, b), first == second, "%s\n%s", a, b)
	})
}

// mutate changes one place of a value, perhaps to an equal one.
func mutate(t *rapid.T, value any) any {
	switch v := value.(type) {
	case list:
		if len(v) > 0 && rapid.Bool().Draw(t, "deeper") {
			i := rapid.IntRange(0, len(v)-1).Draw(t, "i")
			l := append(list{}, v...)
			l[i] = mutate(t, v[i])
			return l
		}
	case members:
		if len(v) > 0 && rapid.Bool().Draw(t, "deeper") {
			i := rapid.IntRange(0, len(v)-1).Draw(t, "i")
			m := append(members{}, v...)
			m[i].value = mutate(t, v[i].value)
			return m
		}
	}
	return drawValue(t, 1)
}

func TestV2Cases(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		equal bool
	}{
		{`{"a":1,"b":[1,2]}`, ` { "b" : [ 1 , 2 ] , "\u0061" : 1.0 } `, true},
		{`[1,2]`, `[2,1]`, false},
		{`{"a":""}`, `{"a":[]}`, false},
		{`{"a":[]}`, `{"a":{}}`, false},
		{`{"a":null}`, `{}`, false},
		{`[[1],[2]]`, `[[1,2],[]]`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`0.1`, `0.10000000000000001`, false},
		{`"1"`, `1`, false},
		{`"true"`, `true`, false},
		{`"<"`, `"\u003c"`, true},
		{`"/"`, `"\/"`, true},
		{`"\ud800"`, `"\ufffd"`, true},
		{`{"a":1,"a":2}`, `{"a":2}`, true},
		{`{"a":2,"a":1}`, `{"a":2}`, false},
		{`{"a":{"b":1},"\u0061":{}}`, `{"a":{}}`, true},
		{`{"metadata":{"name":"n","resourceVersion":"1","managedFields":[{}]}}`, `{"metadata":{"name":"n"}}`, true},
		{`{"spec":{"resourceVersion":"1"}}`, `{"spec":{}}`, false},
		{`{"metadata":{"x":{"resourceVersion":"1"}}}`, `{"metadata":{"x":{}}}`, false},
		{`[{"metadata":{"resourceVersion":"1"}}]`, `[{"metadata":{}}]`, false},
		{`{"resourceVersion":"1"}`, `{}`, false},
	} {
		a, err := V2([]byte(c.a))
		require.NoError(t, err)
		b, err := V2([]byte(c.b))
		require.NoError(t, err)
		require.Equal(t, c.equal, a == b, "%s %s", c.a, c.b)
	}
	for _, doc := range []string{``, `{`, `{}{}`, `[1,]`, strings.Repeat("[", 1001) + strings.Repeat("]", 1001)} {
		_, err := V2([]byte(doc))
		require.ErrorIs(t, err, synchronizer.ErrInvalid)
	}
	long := `{"b":"` + strings.Repeat("x", 100_000) + `","a":[` + strings.Repeat(`{"k":"v"},`, 10_000) + `1]}`
	a, err := V2([]byte(long))
	require.NoError(t, err)
	b, err := V2([]byte(`{"a":[` + strings.Repeat(`{"k":"v"},`, 10_000) + `1],"b":"` + strings.Repeat("x", 100_000) + `"}`))
	require.NoError(t, err)
	require.Equal(t, a, b)
}

// The digests are stored, so they must not change by accident.
func TestV2IsStable(t *testing.T) {
	for doc, want := range map[string]string{
		`{}`: "44136fa355b3678a1146ad16f7e8649e", // SHA-256 of "{}"
		`{"metadata":{"name":"n","resourceVersion":"7"},"a":[1000,1.50,-0,"\u003c\n"]}`: stableSum(`{"a":[1e3,15e-1,0,"<\n"],"metadata":{"name":"n"}}`),
	} {
		got, err := V2([]byte(doc))
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprintf("%x", got))
	}
}

func TestNumbers(t *testing.T) {
	for raw, want := range map[string]string{
		`0`: "0", `-0`: "0", `0.000`: "0", `0e99`: "0", `-0.0e-1234567890123456789012`: "0",
		`1`: "1", `1.0`: "1", `10e-1`: "1", `1E0`: "1", `0.1e+1`: "1",
		`1000`: "1e3", `1e3`: "1e3", `1.000e003`: "1e3", `10.50`: "105e-1", `0.00120`: "12e-4", `-12.5e-1`: "-125e-2",
		`9007199254740993`: "9007199254740993", `1e999999999999999999`: "1e999999999999999999",
		`1e1000000000000000000`: "1e1000000000000000000", `10e999999999999999999`: "1e1000000000000000000",
	} {
		require.Equal(t, want, string(appendNumber(nil, []byte(raw))), raw)
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.StringMatching(`-?(0|[1-9][0-9]{0,4})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?`)
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		canonical := appendNumber(nil, []byte(a))
		require.Equal(t, x.Cmp(y) == 0, string(canonical) == string(appendNumber(nil, []byte(b))), "%s %s", a, b)
		z, ok := new(big.Rat).SetString(string(canonical))
		require.True(t, ok)
		require.Zero(t, x.Cmp(z), "%s %s", a, canonical)
	})
}

func FuzzV2(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","resourceVersion":"1"},"b":[{"c":{}},[],1.0],"b":2}`))
	f.Add([]byte(`[{"\u0061":1,"a":"\ud800"},{"z":1,"y":[{}]}]`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		first, err := V2(doc)
		if err != nil {
			return
		}
		require.True(t, json.Valid(doc))
		again, err := V2([]byte(" " + string(doc) + "\n"))
		require.NoError(t, err)
		require.Equal(t, first, again)
	})
}
