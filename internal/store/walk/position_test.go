// SPDX-License-Identifier: Apache-2.0

package walk

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

func FuzzPosition(f *testing.F) {
	f.Add((&Position{Account: "a", Cluster: "b", Group: "c", Version: "d", Resource: "e", Namespace: "f", Name: "g"}).token())
	f.Add((&Position{KindDone: true}).token())
	f.Add("")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}))
	f.Fuzz(func(t *testing.T, token string) {
		p, err := parsePosition(token)
		if err != nil {
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
			return
		}
		if token == "" {
			require.Nil(t, p)
			return
		}
		again, err := parsePosition(p.token())
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "", "a": "b", "az": "a{", "\x7f": "\u0080", "\ud7ff": "\ue000", "ä": "å", "a\U0010ffff": "b", "\U0010ffff": "",
	} {
		require.Equal(t, want, prefixEnd(prefix), "%q", prefix)
	}
}
