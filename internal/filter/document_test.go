// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/internal/filter"
)

// validDocuments are what ParseDocument accepts, and what it reads.
var validDocuments = map[string]struct {
	text string
	want filter.Lists
}{
	"all empty":              {`{"includeNamespaces":[],"excludeNamespaces":[],"includeNamespacesRegex":[],"excludeNamespacesRegex":[]}`, filter.Lists{}},
	"regexes left out":       {`{"includeNamespaces":["a"],"excludeNamespaces":["b"]}`, filter.Lists{IncludeNamespaces: []string{"a"}, ExcludeNamespaces: []string{"b"}}},
	"empty strings":          {`{"includeNamespaces":"","excludeNamespaces":"","includeNamespacesRegex":"","excludeNamespacesRegex":""}`, filter.Lists{}},
	"string is not trimmed":  {`{"includeNamespaces":"a, b ,","excludeNamespaces":","}`, filter.Lists{IncludeNamespaces: []string{"a", " b ", ""}, ExcludeNamespaces: []string{"", ""}}},
	"array as it is":         {`{"includeNamespaces":["a,b"," c ",""],"excludeNamespaces":[]}`, filter.Lists{IncludeNamespaces: []string{"a,b", " c ", ""}}},
	"blank regexes":          {`{"includeNamespaces":"","excludeNamespaces":"","includeNamespacesRegex":[" ","^dev-"],"excludeNamespacesRegex":" ,\t^b $\n,"}`, filter.Lists{IncludeNamespacesRegex: []string{"^dev-"}, ExcludeNamespacesRegex: []string{"^b $"}}},
	"regex string is split":  {`{"includeNamespaces":"","excludeNamespaces":"","includeNamespacesRegex":"^a, b$"}`, filter.Lists{IncludeNamespacesRegex: []string{"^a", "b$"}}},
	"regex array with comma": {`{"includeNamespaces":"","excludeNamespaces":"","includeNamespacesRegex":["^a{1,2}$"]}`, filter.Lists{IncludeNamespacesRegex: []string{"^a{1,2}$"}}},
	"escaped names":          {`{"include\u004eamespaces":"\u0061","excludeNamespaces":""}`, filter.Lists{IncludeNamespaces: []string{"a"}}},
	"white space around":     {" \n{\"includeNamespaces\":\"\",\"excludeNamespaces\":\"\"}\r\n\t", filter.Lists{}},
	"classes and repetition": {`{"includeNamespaces":"","excludeNamespaces":"","includeNamespacesRegex":["^[\\p{L}\\p{N}-]{1,253}$"]}`, filter.Lists{IncludeNamespacesRegex: []string{`^[\p{L}\p{N}-]{1,253}$`}}},
}

// invalidDocuments are what it rejects, and what the error must name.
var invalidDocuments = map[string]struct{ text, names string }{
	"empty":                  {"", "JSON object"},
	"not JSON":               {"includeNamespaces: []", "JSON"},
	"cut off":                {`{"includeNamespaces":[],"excludeNamespaces":[`, "JSON"},
	"two documents":          {`{"includeNamespaces":[],"excludeNamespaces":[]}{}`, "JSON"},
	"trailing garbage":       {`{"includeNamespaces":[],"excludeNamespaces":[]} x`, "JSON"},
	"trailing comma":         {`{"includeNamespaces":[],"excludeNamespaces":[],}`, "JSON"},
	"byte order mark":        {"\uFEFF" + `{"includeNamespaces":[],"excludeNamespaces":[]}`, "JSON"},
	"null document":          {"null", "object"},
	"array document":         {"[]", "object"},
	"empty object":           {"{}", "includeNamespaces"},
	"include missing":        {`{"excludeNamespaces":[]}`, "includeNamespaces"},
	"exclude missing":        {`{"includeNamespaces":[]}`, "excludeNamespaces"},
	"include null":           {`{"includeNamespaces":null,"excludeNamespaces":[]}`, "includeNamespaces"},
	"regex null":             {`{"includeNamespaces":[],"excludeNamespaces":[],"excludeNamespacesRegex":null}`, "excludeNamespacesRegex"},
	"number":                 {`{"includeNamespaces":[],"excludeNamespaces":1}`, "excludeNamespaces"},
	"boolean":                {`{"includeNamespaces":false,"excludeNamespaces":[]}`, "includeNamespaces"},
	"object":                 {`{"includeNamespaces":{},"excludeNamespaces":[]}`, "includeNamespaces"},
	"number in array":        {`{"includeNamespaces":[1],"excludeNamespaces":[]}`, "includeNamespaces"},
	"null in array":          {`{"includeNamespaces":["a",null],"excludeNamespaces":[]}`, "includeNamespaces"},
	"array in array":         {`{"includeNamespaces":[["a"]],"excludeNamespaces":[]}`, "includeNamespaces"},
	"extra field":            {`{"includeNamespaces":[],"excludeNamespaces":[],"includeNamespace":[]}`, `"includeNamespace"`},
	"field in another case":  {`{"includeNamespaces":[],"excludeNamespaces":[],"IncludeNamespacesRegex":[]}`, `"IncludeNamespacesRegex"`},
	"field twice":            {`{"includeNamespaces":[],"excludeNamespaces":[],"includeNamespaces":["a"]}`, "includeNamespaces"},
	"field twice, escaped":   {`{"includeNamespaces":[],"excludeNamespaces":[],"\u0069ncludeNamespaces":["a"]}`, "includeNamespaces"},
	"look-ahead":             {`{"includeNamespaces":[],"excludeNamespaces":[],"excludeNamespacesRegex":["(?!kube)"]}`, "excludeNamespacesRegex"},
	"unclosed class":         {`{"includeNamespaces":[],"excludeNamespaces":[],"includeNamespacesRegex":["ok","[unclosed"]}`, "includeNamespacesRegex"},
	"regex split at a comma": {`{"includeNamespaces":[],"excludeNamespaces":[],"includeNamespacesRegex":"(a,b)"}`, "includeNamespacesRegex"},
	"one huge regex":         {`{"includeNamespaces":[],"excludeNamespaces":[],"includeNamespacesRegex":["` + strings.Repeat("a{1000}", 300) + `"]}`, "includeNamespacesRegex"},
	"many large regexes":     {`{"includeNamespaces":[],"excludeNamespaces":[],"excludeNamespacesRegex":"` + strings.Repeat("a{1000},", 300) + `"}`, "excludeNamespacesRegex"},
	"long faulty regex":      {`{"includeNamespaces":[],"excludeNamespaces":[],"excludeNamespacesRegex":["[` + strings.Repeat("é", 1000) + `"]}`, "excludeNamespacesRegex"},
	"long unknown field":     {`{"includeNamespaces":[],"excludeNamespaces":[],"` + strings.Repeat("x", 1000) + `":[]}`, "unknown field"},
}

func TestParseDocument(t *testing.T) {
	for name, test := range validDocuments {
		t.Run(name, func(t *testing.T) {
			lists, err := filter.ParseDocument([]byte(test.text))
			require.NoError(t, err)
			require.Equal(t, test.want, lists)
		})
	}
	for name, test := range invalidDocuments {
		t.Run(name, func(t *testing.T) {
			lists, err := filter.ParseDocument([]byte(test.text))
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
			require.ErrorContains(t, err, test.names)
			require.Less(t, len(err.Error()), 500)
			require.Equal(t, filter.Lists{}, lists)
		})
	}
}

func TestThousandsOfUsualRegexesFit(t *testing.T) {
	text := `{"includeNamespaces":[],"excludeNamespaces":[],"excludeNamespacesRegex":"` + strings.Repeat("^team-[a-z0-9]{1}-dev$,", 2000) + `"}`
	lists, err := filter.ParseDocument([]byte(text))
	require.NoError(t, err)
	require.Len(t, lists.ExcludeNamespacesRegex, 2000)
}

// TestDocumentRoundTrip: what encoding/json writes is read as it was meant.
func TestDocumentRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.String(), 0, 4)
		include, exclude := names.Draw(t, "include"), names.Draw(t, "exclude")
		text, err := json.Marshal(map[string]any{"includeNamespaces": include, "excludeNamespaces": strings.Join(exclude, ",")})
		require.NoError(t, err)
		lists, err := filter.ParseDocument(text)
		require.NoError(t, err)
		require.ElementsMatch(t, include, lists.IncludeNamespaces)
		require.Equal(t, strings.Join(exclude, ","), strings.Join(lists.ExcludeNamespaces, ","))
	})
}

func FuzzParseDocument(f *testing.F) {
	for _, test := range validDocuments {
		f.Add([]byte(test.text))
	}
	for _, test := range invalidDocuments {
		if len(test.text) < 500 {
			f.Add([]byte(test.text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lists, err := filter.ParseDocument(text)
		if err != nil {
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
			require.Equal(t, filter.Lists{}, lists)
			return
		}
		// Whatever is accepted is an object of known fields for encoding/json too,
		// and can be put in force.
		var fields map[string]any
		require.NoError(t, json.Unmarshal(text, &fields))
		require.Contains(t, fields, "includeNamespaces")
		require.Contains(t, fields, "excludeNamespaces")
		require.LessOrEqual(t, len(fields), 4)
		for _, value := range fields {
			require.NotNil(t, value)
		}
		live := filter.NewLive("", false)
		changed, err := live.Replace(lists)
		require.NoError(t, err)
		require.True(t, changed)
	})
}
