// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

// documents are cases of the grammar; encoding/json is the judge of which are valid.
var documents = []string{
	`{}`, `[]`, `""`, `0`, `-0`, `1.5e+3`, `true`, `false`, `null`, " [ 1 , { \"a\" : \"b\" } ]\r\n\t",
	``, ` `, `{`, `[`, `"`, `{"a"}`, `{"a":}`, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `{"a":1 "b":2}`, `[1 2]`,
	`01`, `-`, `1.`, `.5`, `1e`, `1e+`, `+1`, `0x1`, `-01`, `1.0E-2`, `tru`, `truex`, `nul`, `NaN`,
	`"\x"`, `"\u12"`, `"\u12g4"`, `"\ud800"`, `"\ud834\udd1e"`, "\"\x01\"", "\"\n\"", "\"\xff\"", `"\"`, `"\\"`, `"\/"`,
	`{} {}`, `{}x`, `1 1`, `[]]`, `{1:2}`, `{'a':1}`, "\ufeff{}", "\v1", `[{"a":[{"b":{}}]}]`,
	`"1234567\""`, `"12345678\u0041"`, "\"12345678\x1f\"", "\"\x7f\u2028\"", `{"a":1}}`, `[1}`, `{"a":1]`,
}

func TestCheckAgreesWithEncodingJSON(t *testing.T) {
	for _, doc := range documents {
		require.Equal(t, json.Valid([]byte(doc)), Valid([]byte(doc)), "%q", doc)
	}
}

func TestErrors(t *testing.T) {
	err := Check([]byte(`{"a":1,}`))
	require.ErrorIs(t, err, ErrSyntax)
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	require.EqualError(t, err, "invalid JSON at byte 7: expected a member name")

	for _, pair := range []string{`[]`, `{}`} {
		opening := pair[:1]
		if opening == "{" {
			opening = `{"a":`
		}
		nested := func(n int) []byte {
			return []byte(strings.Repeat(opening, n-1) + pair + strings.Repeat(pair[1:], n-1))
		}
		require.NoError(t, Check(nested(500)))
		require.NoError(t, Check(nested(MaxDepth)))
		require.ErrorIs(t, Check(nested(MaxDepth+1)), ErrDepth)
		require.ErrorIs(t, Check(nested(1_000_000)), ErrDepth)
		_, err := Metadata(append(append([]byte(`{"spec":`), nested(MaxDepth)...), '}'))
		require.ErrorIs(t, err, ErrDepth)
	}
}

func TestText(t *testing.T) {
	require.True(t, Text(`"name"`).Equal("name"))
	require.True(t, Text(`"n\u0061me"`).Equal("name"))
	require.False(t, Text(`"n\u0061me"`).Equal(`n\u0061me`))
	require.True(t, Text("\"\xff\"").Equal("\uFFFD"))
	require.False(t, Text("\"\xff\"").Equal("\xff"))
	require.True(t, Text(`"MSGID"`).EqualFold("MsgId"))
	require.True(t, Text(`"M\u0073gid"`).EqualFold("MsgId"))
	require.False(t, Text(`"MsgI"`).EqualFold("MsgId"))
	require.Equal(t, "𝄞\t/", Text(`"\ud834\udd1e\t\/"`).String())
}

func TestGetTakesTheLastDuplicate(t *testing.T) {
	doc := []byte(`{"a":{"b":1},"x":[{}], "a" : {"b":2,"\u0062":{"c":3}} }`)
	for _, c := range []struct {
		path []string
		want string
	}{
		{nil, string(doc)},
		{[]string{"a", "b", "c"}, "3"},
		{[]string{"a", "b"}, `{"c":3}`},
		{[]string{"a", "z"}, ""},
		{[]string{"x", "b"}, ""},
	} {
		got, err := Get(doc, c.path...)
		require.NoError(t, err)
		require.Equal(t, c.want, string(got), c.path)
	}
	got, err := Get([]byte(`{"a":{"b":1},"a":{}}`), "a", "b")
	require.NoError(t, err)
	require.Nil(t, got)
	_, err = Get([]byte(`{"a":{"b":1}} x`), "a", "b")
	require.ErrorIs(t, err, ErrSyntax)
}

func TestMembersAndElements(t *testing.T) {
	var got []string
	require.NoError(t, Members([]byte(` {"a":1, "b" :[ 2] } `), func(key Text, value []byte) error {
		got = append(got, key.String()+"="+string(value))
		return nil
	}))
	require.NoError(t, Elements([]byte(`[1,{"x":[]} ,"s"]`), func(value []byte) error {
		got = append(got, string(value))
		return nil
	}))
	require.Equal(t, []string{"a=1", "b=[ 2]", "1", `{"x":[]}`, `"s"`}, got)
	require.ErrorIs(t, Members([]byte(`[]`), nil), ErrSyntax)
	require.ErrorIs(t, Elements([]byte(`{}`), nil), ErrSyntax)
	require.ErrorIs(t, Elements([]byte(`[] 1`), nil), ErrSyntax)
}

// compare holds everything against encoding/json.
func compare(t require.TestingT, doc []byte) {
	if len(doc) > 4*MaxDepth {
		return // encoding/json has a higher limit of depth
	}
	require.Equal(t, json.Valid(doc), Valid(doc), "%q", doc)
	_, _ = Metadata(doc)
	labels, images, err := LabelsAndImages(doc)
	require.Equal(t, Valid(doc), err == nil)
	if m, same, err := MetadataAndImages(doc); err == nil { // both read a Kubernetes object alike
		require.Equal(t, labels, m.Labels())
		require.Equal(t, images, same)
	}
	var text string
	if TypeOf(doc) == String && json.Unmarshal(doc, &text) == nil {
		raw, err := Get(doc)
		require.NoError(t, err)
		require.Equal(t, text, Text(raw).String())
		require.Equal(t, text == string(raw[1:len(raw)-1]) && !bytes.Contains(raw, []byte{'\\'}), Text(raw).Plain())
		require.True(t, Text(raw).Equal(text))
		require.False(t, Text(raw).Equal(text+"x"))
		require.False(t, Text(raw).Equal("x"+text))
	}
	var members map[string]json.RawMessage
	if Valid(doc) && TypeOf(doc) == Object && json.Unmarshal(doc, &members) == nil {
		for name, want := range members {
			got, err := Get(doc, name)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		}
	}
	quoted, err := json.Marshal(string(doc))
	require.NoError(t, err)
	require.Equal(t, string(quoted), string(AppendQuote(nil, doc)))
	unquoted, err := AppendUnquote(nil, quoted)
	require.NoError(t, err)
	var want string
	require.NoError(t, json.Unmarshal(quoted, &want))
	require.Equal(t, want, string(unquoted))
}

func TestAgainstEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if rapid.Bool().Draw(t, "quoted") {
			compare(t, []byte(`"`+rapid.StringMatching(`([a<\x00-\x7f]|\\[bfnrt/"\\]|\\u[dD][89abAB]..|\\ud[89a-f]0[0-9]|\\u00[0-9a-f]{2}){0,20}`).Draw(t, "text")+`"`))
		}
		compare(t, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	})
}

func FuzzDocument(f *testing.F) {
	for _, doc := range documents {
		f.Add([]byte(doc))
	}
	f.Add([]byte(`{"metadata":{"name":"a","labels":{"a":"b"},"ownerReferences":[{"kind":"K"}]},"containers":[{"image":"i"}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) { compare(t, doc) })
}
