// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

func TestToken(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "=",
		"account-1/prod_eu":       "account-1=2Fprod_eu",
		"a/b.c":                   "a=2Fb=2Ec",
		"a/*":                     "a=2F=2A",
		"a/>":                     "a=2F=3E",
		"a/x y\t\n":               "a=2Fx=20y=09=0A",
		"a/ü":                     "a=2F=C3=BC",
		"=":                       "=3D",
		"==":                      "=3D=3D",
		"a=2Fb":                   "a=3D2Fb",
		strings.Repeat("x", 255):  strings.Repeat("x", 255),
		strings.Repeat("x", 256):  "==" + hexOfSum(strings.Repeat("x", 256)),
		strings.Repeat("\n", 100): "==" + hexOfSum(strings.Repeat("\n", 100)),
	} {
		require.Equal(t, want, token(text), "%q", text)
	}
}

func hexOfSum(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

// TestTokenIsInjective: any two texts have different tokens, each safe in a
// subject and no longer than the limit.
func TestTokenIsInjective(t *testing.T) {
	safe := regexp.MustCompile(`^[A-Za-z0-9_=-]{1,255}$`)
	text := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[=23DF/.a]{0,12}`), // near collisions
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) }),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat("x", rapid.IntRange(240, 260).Draw(t, "length")) + rapid.String().Draw(t, "end")
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		require.Regexp(t, safe, token(a))
		require.Equal(t, a == b, token(a) == token(b))
		if back, ok := textOf(token(a)); ok {
			require.Equal(t, a, back)
		} else {
			require.True(t, strings.HasPrefix(token(a), "=="))
		}
		p := partition(a, 16)
		require.True(t, p >= 0 && p < 16)
		require.Equal(t, p, partition(a, 16))
	})
}

// TestHeadersCarryAnything is about the escaping alone; the contract suite sends
// such records through the broker.
func TestHeadersCarryAnything(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a%4E \r\n:]{0,9}`),
		rapid.SampledFrom([]string{"Nats-Msg-Id", "nats-x", "Status", "Description", headerEscaped, headerKey}))
	valid := regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(text, text).Draw(t, "properties")
		r := synchronizer.Record{Key: text.Draw(t, "key")}
		for name, value := range want {
			r.Properties = append(r.Properties, synchronizer.Property{Name: name, Value: value})
		}
		hashed := rapid.Bool().Draw(t, "hashed")
		var h headers
		header, size := h.of(&r, hashed)
		wire := headerFrame
		for name, values := range header {
			require.Regexp(t, valid, name)
			require.Len(t, values, 1)
			require.NotContains(t, values[0], "\n")
			require.NotContains(t, values[0], "\r")
			require.Equal(t, values[0], strings.Trim(values[0], " \t"))
			wire += len(name) + len(values[0]) + lineFrame
		}
		require.Equal(t, wire, size)
		list, key := properties(header)
		got := map[string]string{}
		for _, p := range list {
			got[p.Name] = p.Value
		}
		require.Equal(t, want, got)
		if hashed {
			require.Equal(t, r.Key, key)
		}
	})
}

func FuzzUnescape(f *testing.F) {
	f.Add("a=2Fb", "%41")
	f.Fuzz(func(t *testing.T, tok, name string) {
		if text, ok := textOf(tok); ok && len(tok) <= longestToken/3 {
			again, ok := textOf(token(text))
			require.True(t, ok)
			require.Equal(t, text, again)
		}
		_ = unescapeName(name)
		_, _ = properties(map[string][]string{name: {tok}, headerEscaped: {"1"}, tok: nil})
	})
}
