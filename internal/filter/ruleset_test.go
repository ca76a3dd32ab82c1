// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecisionsAreBounded(t *testing.T) {
	r, err := compile(Lists{ExcludeNamespacesRegex: []string{"7$"}})
	require.NoError(t, err)
	for i := range maxDecisions + 500 {
		require.Equal(t, i%10 != 7, r.allow(strconv.Itoa(i)))
	}
	kept := 0
	r.decisions.Range(func(any, any) bool { kept++; return true })
	require.Equal(t, maxDecisions, kept)
	require.EqualValues(t, maxDecisions, r.decided.Load())
}
