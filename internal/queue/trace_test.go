// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestTraceIsAProperty of every event in both encodings, and of nothing that is in
// no trace.
func TestTraceIsAProperty(t *testing.T) {
	for _, encoding := range []Encoding{Field, Compact} {
		e := Encoder{Encoding: encoding, Producer: Server}
		for event := synchronizer.EventVerify; event <= synchronizer.EventGet; event++ {
			m := testMessage(event)
			without, err := e.Encode(&m, Extra{Link: "v1"})
			require.NoError(t, err)
			for _, p := range without.Properties {
				require.NotEqual(t, "traceparent", p.Name)
			}
			m.TraceParent = trace
			with, err := e.Encode(&m, Extra{Link: "v1"})
			require.NoError(t, err)
			require.Equal(t, without.Payload, with.Payload)
			require.Equal(t, trace, with.Property("traceparent"))
			require.Len(t, with.Properties, len(without.Properties)+1)
			again, err := Decode(&with)
			require.NoError(t, err)
			require.Equal(t, trace, again.TraceParent)

			with.Properties[len(with.Properties)-1].Value = "anything"
			again, err = Decode(&with)
			require.NoError(t, err, "another producer's fault is none of ours")
			require.Empty(t, again.TraceParent)
		}
	}
}
