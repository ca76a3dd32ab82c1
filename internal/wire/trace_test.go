// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/telemetry/traceparent"
)

const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestTraceIsOneMemberMore: a message in a trace is the frame of the field with one
// more key on its top level; AdditionalProperties, which peers in the field have for
// such keys, stays null.
func TestTraceIsOneMemberMore(t *testing.T) {
	seen := map[synchronizer.Event]bool{}
	for _, r := range readRecorded(t) {
		if r.Text != nil {
			continue
		}
		m, err := ParseV1(r.Frame, Limits{})
		if err != nil || !m.Event.AboutObject() && m.Event != synchronizer.EventBatch {
			continue
		}
		require.Empty(t, m.TraceParent)
		without, err := AppendV1(nil, &m)
		require.NoError(t, err)
		require.NotContains(t, string(without), `"traceparent":`)

		m.TraceParent = trace
		with, err := AppendV1(nil, &m)
		require.NoError(t, err)
		require.Equal(t, string(without), strings.Replace(string(with), `,"traceparent":"`+trace+`"`, "", 1))
		require.True(t, strings.HasSuffix(string(with), `"traceparent":"`+trace+`","AdditionalProperties":null}`))
		var top map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(with, &top))
		require.Equal(t, `"`+trace+`"`, string(top["traceparent"]))
		require.Equal(t, "null", string(top["AdditionalProperties"]))

		again, err := ParseV1(with, Limits{})
		require.NoError(t, err)
		require.Equal(t, m, again)
		seen[m.Event] = true
	}
	require.Len(t, seen, 6, "all events but Ping were seen")
}

// TestTraceThatIsNone: what is no traceparent is as if it were not there, and never
// an error: for a peer that does not know it, the key is free.
func TestTraceThatIsNone(t *testing.T) {
	for _, value := range []string{
		`null`, `""`, `7`, `{"a":[1]}`, `"00-x"`, `["` + trace + `"]`, `"` + strings.ToUpper(trace) + `"`,
		`"` + trace + `0"`, `"\u0030` + trace[1:] + `"`, `"` + strings.Repeat("x", 1<<20) + `"`,
		`  "` + strings.Repeat("0", traceparent.Length) + `" `,
	} {
		m, err := ParseV1([]byte(`{"Event":2,"Kind":{"Version":"v1","Resource":"pods"},"Name":"x","traceparent":`+value+`}`), Limits{})
		require.NoError(t, err, value[:min(len(value), 80)])
		require.Equal(t, "x", m.Name)
		require.Empty(t, m.TraceParent)
	}
}
