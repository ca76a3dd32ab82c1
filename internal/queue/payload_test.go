// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

// getPayload is an objectPayload whose baseObject is there even if it is null.
type getPayload struct {
	BaseObject []byte `json:"baseObject"`
	objectPayload
}

func (zero) MarshalJSON() ([]byte, error) { return []byte{'0'}, nil }

// objectOf is what encoding/json has to write for m.
func objectOf(m *synchronizer.Message) any {
	p := objectPayload{
		Cluster: m.Cluster, Account: m.Account, Depth: m.Depth, Kind: m.Kind.String(), MsgID: m.MsgID,
		Name: m.Name, Namespace: m.Namespace,
	}
	if m.Event == synchronizer.EventGet {
		return getPayload{BaseObject: m.Body, objectPayload: p}
	}
	if m.Event != synchronizer.EventDelete {
		p.Checksum = &m.Checksum
	}
	if m.Event == synchronizer.EventPut || m.Event == synchronizer.EventPatch {
		body := m.Body
		if body == nil {
			body = []byte{} // "" and not null
		}
		p.Patch = &body
	}
	return p
}

// TestObjectsAreWrittenAsByEncodingJSON: byte for byte.
func TestObjectsAreWrittenAsByEncodingJSON(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z<>&"\\ \x00-\x1f\x7f/-]{0,12}`), rapid.SampledFrom([]string{"", "\xff", "\u2028", "web-1"}))
	rapid.Check(t, func(t *rapid.T) {
		m := synchronizer.Message{
			Event: rapid.SampledFrom([]synchronizer.Event{
				synchronizer.EventVerify, synchronizer.EventPut, synchronizer.EventPatch, synchronizer.EventDelete, synchronizer.EventGet,
			}).Draw(t, "event"),
			Depth: rapid.Int().Draw(t, "depth"), MsgID: text.Draw(t, "msgID"), Checksum: text.Draw(t, "checksum"),
			Kind:      synchronizer.Kind{Group: text.Draw(t, "group"), Version: text.Draw(t, "version"), Resource: text.Draw(t, "resource")},
			Namespace: text.Draw(t, "namespace"), Name: text.Draw(t, "name"),
			ClusterID: synchronizer.ClusterID{Account: text.Draw(t, "account"), Cluster: text.Draw(t, "cluster")},
			Body:      rapid.SampledFrom([][]byte{nil, {}, []byte("a"), []byte(`{"a":"<b>"}`), {0, 255}}).Draw(t, "body"),
		}
		want, err := json.Marshal(objectOf(&m))
		require.NoError(t, err)
		require.Equal(t, string(want), string(appendObject(&m)))
	})
}

func BenchmarkEncodeField(b *testing.B) {
	encoder := Encoder{Encoding: Field, Producer: Server}
	m := synchronizer.Message{
		Event: synchronizer.EventPut, Depth: 2, MsgID: "0b1cf1de-8c5f-4b1c-9d5e-5f3f6a3b7a11", Body: make([]byte, 2048),
		Kind: synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}, Namespace: "default", Name: "web",
		ClusterID: synchronizer.ClusterID{Account: "a", Cluster: "c"},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encoder.Encode(&m, Extra{Link: "v1"}); err != nil {
			b.Fatal(err)
		}
	}
}
