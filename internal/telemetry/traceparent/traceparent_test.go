// SPDX-License-Identifier: Apache-2.0

package traceparent

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sample = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestValid(t *testing.T) {
	require.True(t, Valid(sample))
	require.True(t, Valid(sample[:53]+"00"), "not sampled is valid, too")
	for name, s := range map[string]string{
		"empty":          "",
		"too short":      sample[:54],
		"too long":       sample + "0",
		"other version":  "01" + sample[2:],
		"upper case":     strings.ToUpper(sample),
		"no trace":       "00-" + strings.Repeat("0", 32) + sample[35:],
		"no span":        sample[:36] + strings.Repeat("0", 16) + sample[52:],
		"another mark":   strings.ReplaceAll(sample, "-", "_"),
		"no digit":       sample[:10] + "g" + sample[11:],
		"flags no digit": sample[:53] + "x1",
		"a quote":        sample[:40] + `"` + sample[41:],
	} {
		require.False(t, Valid(s), name)
		require.Empty(t, Clean(s), name)
		require.Empty(t, TraceID(s), name)
	}
	require.Equal(t, sample, Clean(sample))
	require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", TraceID(sample))
}

func TestContext(t *testing.T) {
	require.Equal(t, t.Context(), NewContext(t.Context(), ""))
	require.Empty(t, FromContext(t.Context()))
	require.Equal(t, sample, FromContext(NewContext(t.Context(), sample)))
}

func TestNamed(t *testing.T) {
	require.Equal(t, "a b/c", Named("a b/c", ""))
	name := Named("a b/c", sample)
	require.Equal(t, "a b/c traceId=4bf92f3577b34da6a3ce929d0e0e4736", name)
	rest, id := Split(name + ": too large")
	require.Equal(t, "a b/c: too large", rest)
	require.Equal(t, TraceID(sample), id)
	for _, plain := range []string{"", "a b/c", "a traceId=", "a traceId=" + strings.Repeat("x", 40)} {
		rest, id = Split(plain)
		require.Equal(t, plain, rest)
		require.Empty(t, id)
	}
}

var version00 = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

func FuzzValid(f *testing.F) {
	f.Add(sample)
	f.Add(strings.Repeat("0", Length))
	f.Fuzz(func(t *testing.T, s string) {
		want := version00.MatchString(s) && s[3:35] != strings.Repeat("0", 32) && s[36:52] != strings.Repeat("0", 16)
		require.Equal(t, want, Valid(s))
		rest, id := Split(s)
		require.Equal(t, id == "", rest == s)
	})
}
