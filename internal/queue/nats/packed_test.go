// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"strings"
	"testing"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

// TestPackedCarriesAnything: whatever a record has, packed brings it through, in
// one header or, if that cannot, in many, and the size is that on the wire.
func TestPackedCarriesAnything(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a%4E \r\n:\x1f]{0,9}`),
		rapid.SampledFrom([]string{headerPacked, headerEscaped, headerKey, packedBetween, "Status", ""}))
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(text, text).Draw(t, "properties")
		r := synchronizer.Record{Key: text.Draw(t, "key")}
		safe := true
		for name, value := range want {
			r.Properties = append(r.Properties, synchronizer.Property{Name: name, Value: value})
			safe = safe && safeValue(name) && safeValue(value)
		}
		hashed := rapid.Bool().Draw(t, "hashed")
		var h headers
		for range 2 { // the second time in the memory of the first
			header, size := h.packed(&r, hashed)
			if safe && !hashed && len(want) > 0 {
				require.Len(t, header, 1)
				require.Len(t, header[headerPacked], 1)
			}
			wire := headerFrame
			for name, values := range header {
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
		}
	})
}

func FuzzUnpack(f *testing.F) {
	f.Add("a\x1fb\x1f")
	f.Add("a\x1fb")
	f.Fuzz(func(t *testing.T, text string) {
		list := unpack(text)
		if strings.Count(text, packedBetween)%2 == 0 && strings.HasSuffix(text, packedBetween) {
			require.Len(t, list, strings.Count(text, packedBetween)/2)
		}
		_, _ = properties(natsgo.Header{headerPacked: {text}})
	})
}
